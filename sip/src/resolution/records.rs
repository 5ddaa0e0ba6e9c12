//! SRV (RFC 2782) and NAPTR (RFC 3403) records. Pure.

use hickory_resolver::proto::rr::{Name, RData};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub target: String,
}

impl ServiceRecord {
    /// `None` if the record is of another kind.
    pub fn read(data: &RData) -> Option<Self> {
        let RData::SRV(record) = data else {
            return None;
        };
        Some(Self {
            priority: record.priority,
            weight: record.weight,
            port: record.port,
            target: without_root(&record.target),
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointerRecord {
    pub order: u16,
    pub preference: u16,
    pub flags: String,
    pub service: String,
    pub replacement: String,
}

impl PointerRecord {
    /// `None` if the record is of another kind.
    pub fn read(data: &RData) -> Option<Self> {
        let RData::NAPTR(record) = data else {
            return None;
        };
        Some(Self {
            order: record.order,
            preference: record.preference,
            flags: String::from_utf8_lossy(&record.flags).into_owned(),
            service: String::from_utf8_lossy(&record.services).into_owned(),
            replacement: without_root(&record.replacement),
        })
    }
}

/// The name without the dot at its end; the root is empty.
fn without_root(name: &Name) -> String {
    let mut name = name.to_ascii();
    if name.ends_with('.') {
        name.pop();
    }
    name
}
