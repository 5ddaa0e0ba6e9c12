//! The keys of the operators' listener.

use std::net::SocketAddr;

use dikala_entities::Secret;
use serde::Deserialize;

use crate::operator::access::Tokens;

#[derive(Clone, Debug, Deserialize)]
pub struct Operator {
    pub listen: SocketAddr,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    read_token: Option<String>,
}

impl Operator {
    /// The tokens that are asked for.
    pub fn tokens(&self) -> Tokens {
        Tokens {
            full: self.token.clone().map(Secret::new),
            read: self.read_token.clone().map(Secret::new),
        }
    }
}
