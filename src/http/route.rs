//! What is at a path: the question that is asked before anything else is done for a request.

use actix_web::http::Method;

/// Where the tenants' API is.
pub const BASE: &str = "/api/v1";
/// Where the operators' API is.
pub const OPERATORS_BASE: &str = "/operator/v1";

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtPath {
    /// A route, and whether it reads parameters of the query.
    Route {
        reads_query: bool,
    },
    /// The path is there and takes these methods, as `Allow` lists them.
    OtherMethods(String),
    Nothing,
}

/// Looks up the pattern that the router matched. The table is above; it comes as data of the application.
#[derive(Clone, Copy, Debug)]
pub struct Lookup(pub fn(Option<&str>, &Method) -> AtPath);
