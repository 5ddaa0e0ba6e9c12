//! Looks up a path before anything else is done for a request.

use actix_web::http::Method;

/// The base path of the tenants' API.
pub const BASE: &str = "/api/v1";
/// The base path of the operators' API.
pub const OPERATORS_BASE: &str = "/operator/v1";

/// The result of looking up a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathMatch {
    /// A route; `reads_query` is true if it has query parameters.
    Route {
        reads_query: bool,
    },
    /// The path exists and has these methods, as in `Allow`.
    OtherMethods(String),
    Nothing,
}

/// Looks up the pattern that the router matched. A function, because the route table is in a module above; it comes
/// as application data.
#[derive(Clone, Copy, Debug)]
pub struct RouteLookup(pub fn(Option<&str>, &Method) -> PathMatch);
