//! The signed-in person's account page: name, language, time zone, mails, password and other sessions.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{AuditAction, OfTenant, Secret, session::Model as SessionRow, user};
use maud::{Markup, html};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, sea_query::Expr};
use sea_orm::{ColumnTrait, QueryFilter};
use serde_json::Value;

use super::{
    components::{Field, Tone, badge, fields, post, submit, table, username},
    form::{self, Fields, FormState, FormValues, Shape},
    lang::Lang,
    layout, password,
    prove::{self, PasswordCheck, prove},
    session, sign_in,
    view::SignedIn,
    zones::{ZONE_DEFAULT, ZONES_OFFERED},
};
use crate::{
    audit::AuditChange,
    http::{
        error::{ApiError, Missing},
        extract::{ParseResult, line},
        field::{FieldCode, FieldError, ValueFault},
    },
    operations::{NAME_CHARS_MAX, members},
};

const PATH: &str = "/dashboard/settings/account";
const FIELDS: &Fields = &[
    ("name", Shape::Text),
    ("language", Shape::Optional),
    ("timeZone", Shape::Text),
    ("mailsLowCredit", Shape::Switch),
    ("mailsDisabledWebhooks", Shape::Switch),
];

/// `GET /dashboard/settings/account`
pub async fn show(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let filled = stored(&visit).await?;
    let content = content(&visit, &filled, &FormState::blank()).await?;
    Ok(layout::page(&visit, &visit.t("account-title"), content))
}

/// The form, filled with the stored values.
async fn stored(visit: &SignedIn) -> Result<FormState, ApiError> {
    let row = me(visit).await?;
    let ticked = |is: bool| if is { "true" } else { "" }.to_owned();
    Ok(FormState::with([
        ("name", row.name),
        ("language", row.language.unwrap_or_default()),
        (
            "timeZone",
            row.time_zone.unwrap_or_else(|| ZONE_DEFAULT.to_owned()),
        ),
        ("mailsLowCredit", ticked(row.mails_low_credit)),
        ("mailsDisabledWebhooks", ticked(row.mails_disabled_webhooks)),
    ]))
}

async fn me(visit: &SignedIn) -> Result<user::Model, ApiError> {
    let found = user::Entity::one_of(visit.tenant(), visit.person().id);
    let found = found.one(visit.store().reader()).await?;
    found.ok_or(ApiError::NotFound(Missing::User))
}

async fn content(
    visit: &SignedIn,
    profile: &FormState,
    password: &FormState,
) -> Result<Markup, ApiError> {
    let sessions = session::list(visit.store(), visit.person().id, visit.now()).await?;
    Ok(html! {
        section aria-labelledby="profile" {
            h2 #profile { (visit.t("account-profile")) }
            (post(visit, PATH, profile_fields(visit, profile)))
        }
        section aria-labelledby="password" {
            h2 #password { (visit.t("account-password")) }
            (password_form(visit, password))
        }
        section aria-labelledby="sessions" {
            h2 #sessions { (visit.t("account-sessions")) }
            (session_table(visit, &sessions))
            p.hint { (visit.t("account-everywhere-words")) }
            (post(visit, &format!("{PATH}/sign-out-everywhere"), html! {
                div.actions { button.danger type="submit" { (visit.t("account-everywhere")) } }
            }))
        }
    })
}

fn profile_fields(visit: &SignedIn, filled: &FormState) -> Markup {
    let languages = Lang::ALL
        .iter()
        .map(|lang| (lang.tag().to_owned(), lang.name().to_owned()));
    let browsers = (String::new(), visit.t("account-language-browser"));
    let languages = std::iter::once(browsers).chain(languages).collect();
    // A time zone that was chosen elsewhere, for example over the API, stays selectable.
    let chosen = filled.text("timeZone");
    let other = Some(chosen).filter(|zone| !ZONES_OFFERED.contains(zone) && !zone.is_empty());
    let zones = ZONES_OFFERED.iter().copied().chain(other);
    let zones = zones
        .map(|name| (name.to_owned(), name.to_owned()))
        .collect();
    html! {
        p { span.muted { (visit.t("account-email")) } br; (visit.person().email) }
        (fields(visit, filled, &[
            Field::text("name", visit.t("account-name")).autocomplete("name"),
            Field::select("language", visit.t("account-language"), languages),
            Field::select("timeZone", visit.t("account-time-zone"), zones),
            Field::switch("mailsLowCredit", visit.t("account-mails-low-credit")),
            Field::switch("mailsDisabledWebhooks", visit.t("account-mails-disabled-webhooks")),
        ]))
        (submit(&visit.t("page-save")))
    }
}

fn password_form(visit: &SignedIn, filled: &FormState) -> Markup {
    if !needs_old_password(visit) {
        return html! { p { a.button.secondary href="/dashboard/password" { (visit.t("account-password-set")) } } };
    }
    let old = Field::password(
        "current_password",
        visit.t("account-password-old"),
        "current-password",
    );
    let new = Field::password(
        "new_password",
        visit.t("account-password-new"),
        "new-password",
    );
    let path = format!("{PATH}/password");
    post(
        visit,
        &path,
        html! {
            (username(visit.person().email.as_str()))
            (fields(visit, filled, &[old, new.hint(visit.t("password-hint"))]))
            (submit(&visit.t("account-password-change")))
        },
    )
}

fn session_table(visit: &SignedIn, sessions: &[SessionRow]) -> Markup {
    let columns = [
        "account-session-browser",
        "account-session-address",
        "account-session-began",
        "account-session-used",
    ];
    let columns = columns.map(|id| visit.t(id));
    let row = |session: &SessionRow| {
        let is_this = session.hash == visit.person().session;
        vec![
            html! {
                (browser(&session.agent).unwrap_or_else(|| visit.t("account-session-unknown")))
                @if is_this { " " (badge(Tone::Good, &visit.t("account-session-this"))) }
            },
            html! { (session.address) },
            visit.time(session.created_at),
            visit.time(session.used_at),
        ]
    };
    table(
        visit,
        &visit.t("account-sessions"),
        &columns,
        sessions.iter().map(row).collect(),
    )
}

/// The usual name of the browser and system behind a `User-Agent`.
fn browser(agent: &str) -> Option<String> {
    let known = |names: &[(&'static str, &'static str)]| {
        let found = names.iter().find(|(sign, _)| agent.contains(sign));
        found.map(|(_, name)| *name)
    };
    // Each of these also claims to be the ones after it.
    let browser = known(&[
        ("Edg/", "Edge"),
        ("OPR/", "Opera"),
        ("SamsungBrowser", "Samsung Internet"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chrome"),
        ("Safari/", "Safari"),
    ])?;
    let system = known(&[
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "macOS"),
        ("Linux", "Linux"),
    ]);
    Some(match system {
        Some(system) => format!("{browser}, {system}"),
        None => browser.to_owned(),
    })
}

/// The fields that the person can change.
struct Profile {
    name: String,
    language: Option<String>,
    time_zone: String,
    mails_low_credit: bool,
    mails_disabled_webhooks: bool,
}

impl Profile {
    fn read(typed: &FormValues) -> Result<Self, ApiError> {
        form::read(typed, FIELDS)?.read(&[], |form| {
            let name = form.required("name", None, line(NAME_CHARS_MAX));
            let language = form.optional("language", None, language);
            let time_zone = form.required("timeZone", None, form::time_zone);
            let ticked = crate::http::extract::boolean;
            let mails_low_credit = form.defaulted("mailsLowCredit", None, false, ticked);
            let mails_disabled_webhooks =
                form.defaulted("mailsDisabledWebhooks", None, false, ticked);
            Some(Self {
                name: name?,
                language,
                time_zone: time_zone?,
                mails_low_credit,
                mails_disabled_webhooks,
            })
        })
    }
}

fn language(value: &Value) -> ParseResult<String> {
    let tag = value.as_str().unwrap_or_default();
    let known = Lang::ALL.iter().find(|lang| lang.tag() == tag);
    known.map(|lang| lang.tag().to_owned()).ok_or_else(|| {
        let predicate = "must be one of the languages that are offered";
        let fault = ValueFault::new(FieldCode::NotAllowed, predicate);
        fault.in_words("fault-not-in-list").into()
    })
}

/// `POST /dashboard/settings/account`
pub async fn update(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let profile = match Profile::read(&typed) {
        Ok(profile) => profile,
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, &filled, &FormState::blank()).await?;
            return Ok(layout::refused(&visit, &visit.t("account-title"), content));
        }
    };
    let person = visit.person();
    let renamed = (profile.name != person.name)
        .then(|| AuditChange::new(AuditAction::UserName, person.id).with(&profile.name));
    let change = user::ActiveModel {
        id: Set(person.id),
        name: Set(profile.name),
        language: Set(profile.language),
        time_zone: Set(Some(profile.time_zone)),
        mails_low_credit: Set(profile.mails_low_credit),
        mails_disabled_webhooks: Set(profile.mails_disabled_webhooks),
        updated_at: Set(visit.now()),
        ..Default::default()
    };
    let txn = visit.store().begin().await?;
    change.update(&txn).await?;
    if let Some(renamed) = renamed {
        let by = visit.origin();
        by.write(&txn, person.tenant, renamed, visit.now()).await?;
    }
    txn.commit().await?;
    Ok(visit.see(PATH, "done-saved"))
}

/// `POST /dashboard/settings/account/password`
pub async fn change_password(
    visit: SignedIn,
    request: HttpRequest,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let old = Secret::new(typed.text("current_password").unwrap_or_default());
    let new = typed
        .raw("new_password")
        .next()
        .unwrap_or_default()
        .to_owned();
    if let Err(fault) = password::check(&new) {
        let fault = not_taken(&visit, fault, "new_password");
        return password_again(&visit, typed, fault).await;
    }
    let network = visit.state().network(&request);
    let proved = match prove(visit.state(), visit.person().email.as_str(), &old, network).await? {
        PasswordCheck::Right(proved) => proved,
        PasswordCheck::Wait(wait) => return Ok(prove::wait(&visit, wait)),
        PasswordCheck::Wrong => return wrong_old_password(&visit, typed).await,
    };
    let is = |person: &user::Model| person.password_hash == proved.password_hash;
    match store_password(&visit, &Secret::new(new), is).await? {
        true => Ok(visit.see(PATH, "done-password-set")),
        false if visit.is_signed_in().await? => wrong_old_password(&visit, typed).await,
        false => Ok(visit.go(PATH)),
    }
}

async fn wrong_old_password(visit: &SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let fault = wrong_password(visit, "current_password");
    password_again(visit, typed, fault).await
}

/// The error of a field that holds a wrong current password.
pub fn wrong_password(visit: &SignedIn, field: &str) -> FieldError {
    FieldError::translated(field, FieldCode::NotAllowed, visit.t("password-wrong"))
}

/// The error of a field whose new password is not acceptable.
fn not_taken(visit: &SignedIn, fault: ValueFault, field: &str) -> FieldError {
    let fault = fault.in_field(field);
    match fault.code {
        FieldCode::NotAllowed => {
            FieldError::translated(field, fault.code, visit.t("password-common"))
        }
        _ => fault,
    }
}

async fn password_again(
    visit: &SignedIn,
    typed: FormValues,
    fault: FieldError,
) -> Result<HttpResponse, ApiError> {
    let filled = FormState::again(typed, ApiError::field(fault))?;
    let content = content(visit, &stored(visit).await?, &filled).await?;
    Ok(layout::refused(visit, &visit.t("account-title"), content))
}

/// Stores a password and ends the person's other sessions.
///
/// Returns false if the locked row no longer satisfies `is`, or if the session has ended: another change came
/// first.
async fn store_password(
    visit: &SignedIn,
    new: &Secret,
    is: impl FnOnce(&user::Model) -> bool,
) -> Result<bool, ApiError> {
    let hash = visit.state().passwords.hash(new).await?;
    let person = visit.person();
    let txn = visit.store().begin().await?;
    let locked = members::lock(&txn, person.tenant, person.id).await?;
    if !locked.is_some_and(|locked| is(&locked))
        || !session::is_in_force(&txn, &person.session, visit.now()).await?
    {
        return Ok(false);
    }
    let change = user::ActiveModel {
        id: Set(person.id),
        password_hash: Set(Some(hash)),
        updated_at: Set(visit.now()),
        ..Default::default()
    };
    change.update(&txn).await?;
    members::end_sessions(&txn, person.id, Some(&person.session)).await?;
    let change = AuditChange::new(AuditAction::UserPassword, person.id);
    let by = visit.origin();
    by.write(&txn, person.tenant, change, visit.now()).await?;
    // From now on this session needs the old password for the next change.
    dikala_entities::session::Entity::update_many()
        .col_expr(dikala_entities::session::Column::ByLink, Expr::value(false))
        .filter(dikala_entities::session::Column::Hash.eq(person.session.clone()))
        .exec(&txn)
        .await?;
    txn.commit().await?;
    tracing::info!(user = %person.id, tenant = %person.tenant, "a password was set");
    Ok(true)
}

/// The old password is not required from a person without one, nor in a session that began with a sign-in link.
fn needs_old_password(visit: &SignedIn) -> bool {
    visit.person().has_password && !visit.person().by_link
}

/// `GET /dashboard/password`
pub async fn ask_password(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    if needs_old_password(&visit) {
        return Ok(visit.go(PATH));
    }
    let content = new_password(&visit, &FormState::blank());
    Ok(layout::page(&visit, &visit.t("password-title"), content))
}

fn new_password(visit: &SignedIn, filled: &FormState) -> Markup {
    let field = Field::password("password", visit.t("password-new"), "new-password");
    html! {
        p.lead { (visit.t("password-words")) }
        (post(visit, "/dashboard/password", html! {
            (username(visit.person().email.as_str()))
            (fields(visit, filled, &[field.hint(visit.t("password-hint"))]))
            div.actions {
                button type="submit" { (visit.t("password-submit")) }
                a.button.secondary href="/dashboard" { (visit.t("password-later")) }
            }
        }))
    }
}

/// `POST /dashboard/password`
pub async fn set_password(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    if needs_old_password(&visit) {
        let missing = ValueFault::new(FieldCode::Required, "is required");
        return password_again(&visit, typed, missing.in_field("current_password")).await;
    }
    let new = typed.raw("password").next().unwrap_or_default().to_owned();
    if let Err(fault) = password::check(&new) {
        let fault = not_taken(&visit, fault, "password");
        let filled = FormState::again(typed, ApiError::field(fault))?;
        let content = new_password(&visit, &filled);
        return Ok(layout::refused(&visit, &visit.t("password-title"), content));
    }
    match store_password(&visit, &Secret::new(new), |_| true).await? {
        true => Ok(visit.see("/dashboard", "done-password-set")),
        // The session has ended, so the next page asks to sign in.
        false => Ok(visit.go("/dashboard/password")),
    }
}

/// `POST /dashboard/settings/account/sign-out-everywhere`
pub async fn sign_out_everywhere(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let txn = visit.store().begin().await?;
    let person = visit.person();
    members::lock(&txn, person.tenant, person.id).await?;
    members::end_sessions(&txn, person.id, None).await?;
    let change = AuditChange::new(AuditAction::UserSignOutEverywhere, person.id);
    let by = visit.origin();
    by.write(&txn, person.tenant, change, visit.now()).await?;
    txn.commit().await?;
    Ok(sign_in::signed_out(&visit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_called_by_their_names() {
        let android = "Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Mobile Safari/537.36";
        assert_eq!(browser(android), Some("Chrome, Android".to_owned()));
        let edge = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) Chrome/130.0.0.0 Safari/537.36 Edg/130.0.0.0";
        assert_eq!(browser(edge), Some("Edge, Windows".to_owned()));
        assert_eq!(browser("curl/8.5"), None);
    }
}
