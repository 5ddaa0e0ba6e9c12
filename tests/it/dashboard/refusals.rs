//! Refused forms: the same page again, with the reason and the typed values.

use super::*;
use crate::support::visitor::{HtmlForm, VisitedPage};

const AGENTS: &str = "/dashboard/agents";
const PASSWORD_PAGE: &str = "/dashboard/password";
/// Maximum number of a tenant's active keys, and of its agents.
const KEYS_MAX: usize = 100;
const AGENTS_MAX: usize = 1_000;

#[track_caller]
fn assert_refused(page: &VisitedPage, words: &str) {
    assert_eq!(page.status, 422, "{}", page.path);
    page.assert_shows(words);
}

/// Asserts that the error is shown in Indonesian, once, and without an English text.
#[track_caller]
fn assert_told_in_indonesian(page: &VisitedPage, words: &str) {
    assert_refused(page, words);
    page.assert_hides("lang=\"en\"");
}

#[rstest]
#[actix_web::test]
async fn what_is_said_in_indonesian_is_not_said_in_english_as_well(
    #[values(Sqlite)] store: StoreKind,
) {
    let world = world!(store);
    let owner = owner(&world).await;
    let indonesian = |browser: Visitor| browser.with("accept-language", "id-ID,id");
    let browser = indonesian(owner.browser.clone());

    let stranger = indonesian(owner.browser.another());
    let page = try_password(&stranger, &owner.email, "not the password").await;
    assert_told_in_indonesian(&page, "Alamat email atau kata sandi salah.");

    let taken = [("email", owner.email.as_str()), ("name", "Sari")];
    let page = browser.fill(MEMBERS, MEMBERS, &taken).await;
    assert_told_in_indonesian(&page, "Alamat ini sudah dipakai seseorang.");

    let change = format!("{ACCOUNT}/password");
    let wrong = [
        ("current_password", "not the password"),
        ("new_password", "eight green kettles"),
    ];
    let page = browser.fill(ACCOUNT, &change, &wrong).await;
    assert_told_in_indonesian(&page, "Ini bukan kata sandi Anda.");
    let common = [
        ("current_password", PASSWORD),
        ("new_password", "qwertyuiop"),
    ];
    let page = browser.fill(ACCOUNT, &change, &common).await;
    assert_told_in_indonesian(&page, "salah satu kata sandi yang paling umum");

    let show = format!("{SECRET_PAGE}/show");
    let wrong = [("password", "not the password")];
    let page = browser.fill(SECRET_PAGE, &show, &wrong).await;
    assert_told_in_indonesian(&page, "Ini bukan kata sandi Anda.");

    // An error inside a field names the place; an error of a list says that it is empty.
    let functions = format!("/dashboard/agents/{}/functions/new", world.tenant.agent);
    let nameless = [
        ("name", "cek"),
        ("description", "Cek"),
        ("method", "POST"),
        ("endpoint", "https://example.com/cek"),
        ("parameters", "{}"),
    ];
    let page = browser.fill(&functions, &functions, &nameless).await;
    assert_told_in_indonesian(&page, "type : Wajib diisi.");
    let wrong = nameless.map(|(name, value)| match name {
        "name" => (name, "end_call"),
        "endpoint" => (name, "https://me@example.com/cek"),
        "parameters" => (name, "{\"type\": \"object\", \"optional\": []}"),
        _ => (name, value),
    });
    let page = browser.fill(&functions, &functions, &wrong).await;
    for words in [
        "Nama: Nama ini sudah dipakai alat bawaan.",
        "Alamat: Alamat tidak boleh memuat nama pengguna atau kata sandi.",
        "optional : Kata kunci ini tidak dapat dipakai. is not a keyword that is taken",
    ] {
        page.assert_shows(words);
    }
    let page = browser.open("/dashboard/calls?to=kemarin").await;
    assert_told_in_indonesian(&page, "Sampai tanggal: Isi dengan tanggal");
    let webhooks = "/dashboard/webhooks/new";
    let form = browser.open(webhooks).await.form(webhooks);
    let form = form.set("url", "https://example.com/hooks");
    let page = browser.submit(&form.without("events")).await;
    assert_told_in_indonesian(&page, "Pilih paling sedikit satu.");

    let form = browser.open(KEYS).await.form(KEYS).set("name", "Kasir");
    let (mut page, mut made) = (browser.post(&form).await, 0);
    while page.status == 303 {
        made += 1;
        assert!(made <= KEYS_MAX, "{made}");
        page = browser.post(&form).await;
    }
    assert_told_in_indonesian(&page, "paling banyak punya 100 kunci");
    page.assert_hides("Paling banyak 0");
}

/// Inserts as many agents as a tenant may have.
async fn fill_up_with_agents(world: &TestWorld) {
    let columns = "tenant_id, name, system_prompt, greeting_text, voice_id, language, max_call_duration_minutes, tools_enabled, \
                   escalation_number, is_active, created_at, updated_at, version, weight";
    let more = AGENTS_MAX - 1;
    let sql = format!(
        "INSERT INTO agents (id, {columns}) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {more}) \
         SELECT 'agent_01k9zv3m8rj2q4w6y8a0c2' || CAST(1000 + n.i AS TEXT), {columns} FROM agents, n WHERE agents.id = '{}'",
        world.tenant.agent
    );
    execute(&world.server, &sql).await;
}

#[rstest]
#[actix_web::test]
async fn one_agent_too_many_is_refused_on_the_page_that_it_was_asked_on(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let browser = owner(&world).await.browser;
    fill_up_with_agents(&world).await;
    let agent = format!("{AGENTS}/{}", world.tenant.agent);
    let duplicate = format!("{agent}/duplicate");
    let form = browser.open(&agent).await.form(&duplicate);
    let page = browser.submit(&form).await;
    assert_refused(&page, "more than 1000 agents; delete one first");
    assert_eq!(page.form(&agent).value("name"), Some("Sari"));

    let indonesian = browser.clone().with("accept-language", "id");
    let page = indonesian.submit(&form).await;
    assert_refused(&page, "Anda sudah punya 1.000 agen");
    page.assert_hides("Paling banyak 0");

    let agents = world.server.installation.store.count("agents").await;
    assert_eq!(agents, AGENTS_MAX);
}

#[rstest]
#[actix_web::test]
async fn what_was_typed_stays_where_there_is_no_room_for_another_version(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let tenant = &world.tenant;
    let browser = owner(&world).await.browser;
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/f"))
        .await;
    execute(
        &world.server,
        "UPDATE agent_settings SET size = 1000000000000",
    )
    .await;
    let agent = format!("{AGENTS}/{}", tenant.agent);
    let function = format!("{agent}/functions/check_order");
    let new_agent = format!("{AGENTS}/new");
    let new_function = format!("{agent}/functions/new");
    let of_function = [
        ("name", "check_stock"),
        ("description", "Counts."),
        ("endpoint", "https://example.com/stock"),
    ];
    for (path, typed) in [
        (&agent, &[("systemPrompt", "Be brief.")][..]),
        (
            &new_agent,
            &[("name", "Kasir"), ("systemPrompt", "Be brief.")],
        ),
        (&function, &[("description", "Counts.")]),
        (&new_function, &of_function),
    ] {
        let page = browser.fill(path, path, typed).await;
        assert_refused(&page, "changed too often within a short time");
        assert_eq!(page.header("retry-after"), Some("300"), "{path}");
        let form = page.form(path);
        for (name, value) in typed {
            assert_eq!(form.value(name), Some(*value), "{name} at {path}");
        }
    }
    let duplicate = format!("{agent}/duplicate");
    let page = browser.fill(&agent, &duplicate, &[]).await;
    assert_refused(&page, "changed too often within a short time");
    assert_eq!(page.header("retry-after"), Some("300"));
    page.form(&agent);
}

#[actix_web::test]
async fn a_role_that_is_none_is_refused_beside_the_list_and_only_for_members_of_ours() {
    let world = world!(Sqlite);
    let owner = owner(&world).await;
    let (browser, tenant) = (&owner.browser, &world.tenant.id);
    let sari = somebody(&world.server, tenant, "sari@example.com", "viewer").await;
    let path = |id: &str| format!("{MEMBERS}/{id}/role");
    let form = browser.open(MEMBERS).await.form(&path(&sari.id));
    for (wrong, words) in [
        (form.clone().set("role", "king"), "\"king\" is not a role"),
        (form.clone().without("role"), "\"\" is not a role"),
    ] {
        let page = browser.submit(&wrong).await;
        assert_refused(&page, words);
        assert_eq!(page.form(&path(&sari.id)).value("role"), Some("viewer"));
    }

    let other = world.another_tenant(0).await;
    let stranger = somebody(&world.server, &other.id, "stranger@example.com", "viewer").await;
    for id in [&*stranger.id, "user_01k9zzzzzzzzzzzzzzzzzzzzzz"] {
        for role in ["king", "owner"] {
            let foreign = HtmlForm {
                action: path(id),
                ..form.clone().set("role", role)
            };
            assert_eq!(browser.submit(&foreign).await.status, 404, "{id} {role}");
        }
    }
}

/// After a sign-in with the password, a change needs the old password.
#[rstest]
#[actix_web::test]
async fn a_password_is_not_replaced_without_the_old_one(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let owner = owner(&world).await;
    let browser = owner.browser.another();
    let page = try_password(&browser, &owner.email, PASSWORD).await;
    assert_eq!(page.status, 303);
    let change = format!("{ACCOUNT}/password");
    let form = browser.open(ACCOUNT).await.form(&change);
    let without = HtmlForm {
        action: PASSWORD_PAGE.to_owned(),
        ..form.without("current_password").without("new_password")
    };
    let page = browser
        .submit(&without.tick("password", "eight green kettles"))
        .await;
    assert_refused(&page, "This is required.");
    assert_eq!(page.input("current_password")["aria-invalid"], "true");
    page.form(&change);
    let still = owner.browser.another();
    let page = try_password(&still, &owner.email, PASSWORD).await;
    assert_eq!(page.status, 303, "the password is as it was");
}

/// The errors of a draft stand beside the fields of the form, as those of a change do.
#[actix_web::test]
async fn what_is_wrong_in_a_form_to_be_tried_is_told_beside_its_fields() {
    let setup = WorldSetup::new().set("telephony.pipeline.llm.url", "http://127.0.0.1:9");
    let world = world!(Sqlite, setup);
    let browser = owner(&world).await.browser;
    let agent = format!("{AGENTS}/{}", world.tenant.agent);
    let form = browser.open(&agent).await.form(&agent);
    let form = form.set("name", "").set("maxCallDurationMinutes", "0");
    let chats = HtmlForm {
        action: format!("{agent}/chats"),
        ..form.clone()
    };
    for form in [form, chats] {
        let page = browser.submit(&form).await;
        assert_refused(&page, "Name: This is required.");
        for name in ["name", "maxCallDurationMinutes"] {
            assert_eq!(page.input(name)["aria-invalid"], "true", "{name}");
            assert!(page.links().contains(&format!("#f-{name}")), "{name}");
        }
        assert_eq!(page.form(&agent).value("maxCallDurationMinutes"), Some("0"));
        page.assert_hides("draft");
    }
}

/// The caller's number stands beside the agent's form. The script shows its field with the error.
#[actix_web::test]
async fn a_wrong_callers_number_is_told_apart_from_a_wrong_form() {
    let world = world!(Sqlite);
    let browser = owner(&world).await.browser;
    let agent = format!("{AGENTS}/{}", world.tenant.agent);
    let form = browser.open(&agent).await.form(&agent);
    let talk = HtmlForm {
        action: format!("{agent}/talk"),
        ..form.tick("callerNumber", "call me")
    };
    for (language, words) in [
        ("en", "This is not a phone number."),
        ("id", "Ini bukan nomor telepon."),
    ] {
        let browser = browser.clone().with("accept-language", language);
        for (form, is_form_wrong) in [(talk.clone(), false), (talk.clone().set("name", ""), true)] {
            let page = browser.submit(&form).await;
            assert_eq!(page.status, 422, "{}", page.html);
            let told: Value = serde_json::from_str(&page.html).unwrap();
            assert_eq!(told["isFormWrong"], is_form_wrong, "{told}");
            let field = text(&told, "callerField");
            assert!(field.contains(words), "{field}");
            assert!(
                field.contains("aria-describedby=\"f-callerNumber-hint f-callerNumber-error\"")
            );
            assert!(field.contains("value=\"call me\""), "{field}");
        }
    }
    let nameless = talk.without("callerNumber").set("name", "");
    let told: Value = serde_json::from_str(&browser.submit(&nameless).await.html).unwrap();
    assert_eq!(
        (&told["callerField"], &told["isFormWrong"]),
        (&Value::Null, &json!(true))
    );
}
