//! The sign-in page. Each audience has its own fields and credentials.

use actix_web::{HttpResponse, http::StatusCode};
use maud::html;

use super::{
    components::{Field, fields, post, submit},
    form::{FormState, FormValues},
    layout,
    view::View,
};
use crate::http::{
    error::ApiError,
    field::{FieldCode, FieldError, ValueFault},
};

/// The sign-in form of an audience.
#[derive(Debug)]
pub struct SignInForm {
    pub fields: Vec<Field>,
    /// The message id of the words below the form.
    pub hint: &'static str,
}

impl SignInForm {
    /// The page, or a redirect to the destination for a signed-in reader.
    pub fn show(&self, view: &View, next: Option<&str>) -> HttpResponse {
        if view.account().is_some() {
            return view.go(destination(view, next));
        }
        let next = next.filter(|next| view.audience().owns(next));
        let filled = FormState::with(next.map(|next| ("next", next)));
        self.page(view, StatusCode::OK, &filled)
    }

    /// The page with the errors of what was typed.
    pub fn again(
        &self,
        view: &View,
        typed: FormValues,
        faults: Vec<FieldError>,
    ) -> Result<HttpResponse, ApiError> {
        let filled = FormState::again(typed, ApiError::Validation(faults))?;
        Ok(self.page(view, StatusCode::UNPROCESSABLE_ENTITY, &filled))
    }

    fn page(&self, view: &View, status: StatusCode, filled: &FormState) -> HttpResponse {
        let title = view.t("sign-in-title");
        let content = html! {
            h1 { (title) }
            (post(view, view.audience().sign_in, html! {
                input type="hidden" name="next" value=(filled.text("next"));
                (fields(view, filled, &self.fields))
                (submit(&view.t("sign-in-submit")))
            }))
            p.muted { (view.t(self.hint)) }
        };
        layout::outside(view, status, &title, content)
    }
}

/// The page to show after signing in.
pub fn destination<'a>(view: &View, next: Option<&'a str>) -> &'a str {
    let audience = view.audience();
    next.filter(|next| audience.owns(next))
        .unwrap_or(audience.home)
}

/// The errors of required fields that were left empty.
pub fn missing(typed: &FormValues, names: &[&str]) -> Vec<FieldError> {
    let is_empty = |name: &&&str| typed.text(name).unwrap_or_default().trim().is_empty();
    let required = |name: &&str| ValueFault::new(FieldCode::Required, "is required").in_field(name);
    names.iter().filter(is_empty).map(required).collect()
}
