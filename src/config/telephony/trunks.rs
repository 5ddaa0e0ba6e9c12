//! Trunks: the checks of their tables, and their settings.

use std::{collections::HashSet, ops::RangeInclusive};

use config::{Value, ValueKind};
use dikala_sip::settings::{
    AnswerOrder, Credentials, OutboundIdentity, OutboundSettings, RegisterSettings, SessionTimer,
    TransferMethod, Trunk, TrunkPreset,
};
use ipnet::IpNet;

use super::{
    host,
    trunk_tables::{OutboundTable, RegisterTable, TrunkTable, address, proxy_address},
    whatsapp,
};
use crate::{common_passwords::is_common, config::nets::parse_net};

const TRUNKS_MAX: usize = 1_000;
const NAME_CHARS_MAX: usize = 64;
/// The shortest password for callers, in characters. Nothing else keeps attackers out.
const PASSWORD_CHARS_MIN: usize = 12;
/// The allowed lifetime of a registration in seconds, and the default.
const EXPIRES_SECONDS: RangeInclusive<u32> = 1..=86_400;
const EXPIRES_SECONDS_USUAL: u32 = 600;
const CALLS_MAX: u32 = 20_000;
const RATE_MAX: u32 = 1_000;
const TRANSFERS: [(&str, TransferMethod); 3] = [
    ("auto", TransferMethod::Auto),
    ("refer", TransferMethod::Refer),
    ("bridge", TransferMethod::Bridge),
];
const ORDERS: [(&str, AnswerOrder); 2] = [("peer", AnswerOrder::Peer), ("ours", AnswerOrder::Ours)];
const TIMERS: [(&str, SessionTimer); 2] =
    [("auto", SessionTimer::Auto), ("off", SessionTimer::Off)];
const IDENTITIES: [(&str, OutboundIdentity); 3] = [
    ("did", OutboundIdentity::Did),
    ("account", OutboundIdentity::Account),
    ("caller", OutboundIdentity::Caller),
];

/// The fault of the list of trunks, if it has one.
pub(in crate::config) fn trunks(items: &[Value]) -> Option<String> {
    if items.len() > TRUNKS_MAX {
        return Some(format!("it must have at most {TRUNKS_MAX} entries"));
    }
    let (mut names, mut usernames) = (HashSet::new(), HashSet::new());
    let mut trunks = Vec::new();
    let fault = items.iter().zip(1..).find_map(|(item, number)| {
        if !matches!(item.kind, ValueKind::Table(_)) {
            return Some(
                "it must be a list of tables, [[telephony.sip.trunks]], in the file of the configuration".to_owned(),
            );
        }
        let read = item.clone().try_deserialize::<TrunkTable>();
        let trunk = read
            .map_err(|error| error.to_string())
            .and_then(|table| table.read());
        match trunk {
            Ok(trunk) if !names.insert(trunk.name.clone()) => {
                Some(format!("two trunks have the name {:?}", trunk.name))
            }
            Ok(trunk) => {
                let username = trunk.credentials.as_ref();
                let username = username.map(|credentials| credentials.username.clone());
                trunks.push(trunk);
                let again = username.filter(|username| !usernames.insert(username.clone()));
                again.map(|again| {
                    format!("two trunks have the username {again:?}, which is to say who calls")
                })
            }
            Err(fault) => Some(format!("trunk {number}: {fault}")),
        }
    });
    fault.or_else(|| transfer_fault(&trunks))
}

/// The fault of the first `transfer_trunk` over which nobody can be called.
fn transfer_fault(trunks: &[Trunk]) -> Option<String> {
    trunks.iter().zip(1..).find_map(|(trunk, number)| {
        let name = trunk.transfer_trunk.as_ref()?;
        let why = match trunks.iter().find(|other| other.name == *name) {
            None => "and no trunk has this name",
            Some(other) if other.outbound.uri.is_none() && other.register.is_none() => {
                "which has no place for calls to persons; set its outbound.uri or register"
            }
            Some(_) => return None,
        };
        Some(format!("trunk {number}: transfer_trunk is {name:?}, {why}"))
    })
}

impl TrunkTable {
    pub(super) fn read(&self) -> Result<Trunk, String> {
        let length = self.name.chars().count();
        if length == 0 || length > NAME_CHARS_MAX || self.name.chars().any(char::is_control) {
            return Err(format!("name must have 1 to {NAME_CHARS_MAX} characters"));
        }
        let net = |text: &String| {
            parse_net(text).ok_or_else(|| {
                format!(
                    "{text:?} is no address or range; write it like 203.0.113.7 or 203.0.113.0/24"
                )
            })
        };
        let addresses: Vec<_> = self.addresses.iter().map(net).collect::<Result<_, _>>()?;
        let preset = whatsapp::preset(self.preset.as_deref())?;
        let trunk = match preset {
            Some(TrunkPreset::WhatsApp) => whatsapp::trunk(self, addresses)?,
            None => self.plain(addresses)?,
        };
        Ok(Trunk {
            transfer_trunk: self.transfer_trunk.clone(),
            max_calls: limit("max_calls", CALLS_MAX, self.max_calls)?,
            calls_per_second: limit("calls_per_second", RATE_MAX, self.calls_per_second)?,
            ..trunk
        })
    }

    /// The settings without a preset.
    fn plain(&self, addresses: Vec<IpNet>) -> Result<Trunk, String> {
        let credentials = match (&self.username, &self.password) {
            (None, None) => None,
            (Some(username), Some(password)) if !username.is_empty() && !password.is_empty() => {
                check_password(password)?;
                Some(Credentials {
                    username: username.clone(),
                    password: password.clone(),
                })
            }
            _ => return Err("username and password must be set both, or neither".to_owned()),
        };
        let register = self.register.as_ref().map(RegisterTable::read);
        let register = register.transpose()?;
        let outbound = self.outbound.as_ref().map(OutboundTable::read);
        let outbound = outbound.transpose()?.unwrap_or_default();
        if self.addresses.is_empty() && credentials.is_none() && register.is_none() {
            return Err(
                "nobody can call over it; set addresses, or username and password, or register"
                    .to_owned(),
            );
        }
        check_identity(&outbound, register.is_some())?;
        if let Some(prefix) = &self.prefix
            && !is_prefix(prefix)
        {
            return Err(format!("prefix is {prefix:?}; it must be like +62"));
        }
        if self.account_file.is_some() {
            return Err(
                "account_file is for a trunk with the preset whatsapp; remove it".to_owned(),
            );
        }
        let transfer = one_of("transfer", &TRANSFERS, self.transfer.as_deref())?;
        if self.transfer_trunk.is_some()
            && self.transfer.is_some()
            && transfer != TransferMethod::Bridge
        {
            return Err(
                "transfer_trunk is set, and transfer is not bridge; only a call of our own goes over another trunk"
                    .to_owned(),
            );
        }
        let (number, extensions) = self.numbers()?;
        Ok(Trunk {
            name: self.name.clone(),
            addresses,
            credentials,
            register,
            prefix: self.prefix.clone(),
            number,
            extensions,
            outbound,
            transfer,
            session_timer: one_of("session_timer", &TIMERS, self.session_timer.as_deref())?,
            answer_order: one_of("answer_order", &ORDERS, self.answer_order.as_deref())?,
            ..Trunk::default()
        })
    }
}

/// The value of an option with these names; without a text the default.
fn one_of<T: Copy + Default>(
    field: &str,
    names: &[(&str, T)],
    text: Option<&str>,
) -> Result<T, String> {
    let Some(text) = text else {
        return Ok(T::default());
    };
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        format!(
            "{field} is {text:?}; it must be one of {}",
            names.join(", ")
        )
    })
}

fn limit(field: &str, most: u32, value: Option<u32>) -> Result<Option<u32>, String> {
    match value {
        Some(value) if !(1..=most).contains(&value) => {
            Err(format!("{field} must be from 1 to {most}"))
        }
        _ => Ok(value),
    }
}

impl OutboundTable {
    fn read(&self) -> Result<OutboundSettings, String> {
        let uri = self.uri.as_ref().map(|uri| address("outbound.uri", uri));
        let credentials = match (&self.username, &self.password) {
            (None, None) => None,
            (Some(username), Some(password)) if !username.is_empty() && !password.is_empty() => {
                Some(Credentials {
                    username: username.clone(),
                    password: password.clone(),
                })
            }
            _ => {
                return Err(
                    "outbound.username and outbound.password must be set both, or neither"
                        .to_owned(),
                );
            }
        };
        Ok(OutboundSettings {
            uri: uri.transpose()?,
            credentials,
            from: one_of("outbound.from", &IDENTITIES, self.from.as_deref())?,
        })
    }
}

/// Refuses an account that persons shall see and that the trunk does not have: they would see the called number.
fn check_identity(outbound: &OutboundSettings, is_registered: bool) -> Result<(), String> {
    let has_account = is_registered || outbound.credentials.is_some();
    if outbound.from == OutboundIdentity::Account && !has_account {
        return Err(
            "outbound.from is \"account\", and the trunk has no account; set register, or outbound.username and outbound.password, or write from = \"did\""
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks a password for callers. A registrar's password is not checked, because the registrar chooses it.
fn check_password(password: &str) -> Result<(), String> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        return Err(format!(
            "password must have at least {PASSWORD_CHARS_MIN} characters; whoever guesses it calls at your cost"
        ));
    }
    if is_common(password) {
        let fault =
            "password is one of the most common ones, which are tried first; take a random one";
        return Err(fault.to_owned());
    }
    Ok(())
}

fn is_prefix(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    (1..=7).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
        && !digits.starts_with('0')
}

impl RegisterTable {
    fn read(&self) -> Result<RegisterSettings, String> {
        let registrar = address("register.registrar", &self.registrar)?;
        let proxy = self.proxy.as_ref();
        let proxy = proxy.map(|proxy| proxy_address("register.proxy", proxy));
        if let Some(domain) = self.domain.as_ref().filter(|domain| host(domain).is_none()) {
            return Err(format!(
                "register.domain is {domain:?}; it must be like sip.example.com"
            ));
        }
        if self.username.is_empty() || self.password.is_empty() {
            return Err("register.username and register.password must be set".to_owned());
        }
        let expires_seconds = self.expires_seconds.unwrap_or(EXPIRES_SECONDS_USUAL);
        if !EXPIRES_SECONDS.contains(&expires_seconds) {
            return Err(format!(
                "register.expires_seconds must be from {} to {}",
                EXPIRES_SECONDS.start(),
                EXPIRES_SECONDS.end()
            ));
        }
        let digest_username = self.auth_username.as_ref().unwrap_or(&self.username);
        Ok(RegisterSettings {
            registrar,
            proxy: proxy.transpose()?,
            domain: self.domain.clone(),
            account: Some(self.username.clone()),
            credentials: Credentials {
                username: digest_username.clone(),
                password: self.password.clone(),
            },
            expires_seconds,
        })
    }
}

#[cfg(test)]
mod tests;
