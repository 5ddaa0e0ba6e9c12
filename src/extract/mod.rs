//! What handlers take: who asks, what for, and with which fields. Everything is parsed here, once, and refused here with all
//! that is wrong with it at once.

mod body;
mod caller;
mod field;
mod form;
mod json;
mod parse;
mod path;
mod query;

pub use body::{Body, RawBody};
pub use caller::Caller;
pub use field::{Fault, Faults, FieldCode, FieldError};
pub use form::{Form, Parsed, Reader};
pub use parse::{
    BlankRule, OFFSET_MAX, boolean, digits, e164, id, instant, integer, language, list,
    no_transfer, not_allowed, object, text, transfer_target, url, word,
};
pub use path::{FunctionName, Id, VersionNumber};
pub use query::Query;
