//! The keys of the operators' listener.

use std::net::SocketAddr;

use dikala_entities::Secret;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub struct OperatorKeys {
    pub listen: SocketAddr,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    read_token: Option<String>,
}

impl OperatorKeys {
    /// The token that allows everything.
    pub fn token(&self) -> Option<Secret> {
        self.token.clone().map(Secret::new)
    }

    /// The token that allows reading only.
    pub fn read_token(&self) -> Option<Secret> {
        self.read_token.clone().map(Secret::new)
    }
}
