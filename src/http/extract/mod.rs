//! The handlers' extractors: client, path, query and body. Everything is parsed here, once, and refused with all
//! faults at once.

mod body;
mod form;
mod json;
mod key_order;
mod parse;
mod path;
mod query;

pub use body::RequestBody;
pub use form::{FormFields, FormReader, ParseResult};
pub use key_order::KeyOrder;
pub use parse::{
    BlankRule, LIMIT_DEFAULT, LIMIT_MAX, OFFSET_MAX, SEARCHED, boolean, digits, e164, id, instant,
    integer, language, line, list, no_transfer, not_allowed, object, string, text, transfer_target,
    url, word,
};
pub use path::{FunctionName, Id, TypeName, VersionNumber};
pub use query::{OperatorQuery, Query};
