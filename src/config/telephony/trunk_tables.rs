//! Trunks as tables of the configuration file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use dikala_sip::{outbound_proxy, registrar};
use serde::Deserialize;

use super::account::{WhatsAppAccount, WhatsAppTrunk, usual_file};

const EXTENSIONS_MAX: usize = 1_000;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrunkTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) register: Option<RegisterTable>,
    pub(super) prefix: Option<String>,
    pub(super) number: Option<String>,
    #[serde(default)]
    pub(super) extensions: BTreeMap<String, String>,
    pub(super) outbound: Option<OutboundTable>,
    pub(super) transfer: Option<String>,
    pub(super) session_timer: Option<String>,
    pub(super) max_calls: Option<u32>,
    pub(super) calls_per_second: Option<u32>,
    pub(super) answer_order: Option<String>,
    pub(super) preset: Option<String>,
    pub(super) transfer_trunk: Option<String>,
    pub(super) account_file: Option<PathBuf>,
    /// The number's account at Meta, read from its file.
    #[serde(skip)]
    pub(super) account: Option<WhatsAppAccount>,
    /// Why that file cannot be used.
    #[serde(skip)]
    pub(super) account_fault: Option<String>,
}

impl std::fmt::Debug for TrunkTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TrunkTable").field(&self.name).finish()
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegisterTable {
    pub(super) registrar: String,
    pub(super) proxy: Option<String>,
    pub(super) domain: Option<String>,
    pub(super) username: String,
    pub(super) auth_username: Option<String>,
    pub(super) password: String,
    pub(super) expires_seconds: Option<u32>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutboundTable {
    pub(super) uri: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) from: Option<String>,
}

impl TrunkTable {
    /// The password for Meta: that of the configuration, else of the account.
    pub(super) fn whatsapp_password(&self) -> Option<&str> {
        let account = self.account.as_ref();
        let stored = account.and_then(|account| account.password.as_deref());
        self.password.as_deref().or(stored)
    }

    /// Reads the number's account at Meta from its file, by default one in this folder. Nothing without the preset.
    pub(super) fn read_account(&mut self, folder: &Path) {
        let file = self.account_file(folder);
        match file.map_or(Ok(None), |file| WhatsAppAccount::read(&file)) {
            Ok(account) => self.account = account,
            Err(fault) => self.account_fault = Some(fault),
        }
    }

    /// The file of the account. A relative name is one in this folder, wherever the program was started.
    fn account_file(&self, folder: &Path) -> Option<PathBuf> {
        self.preset.as_ref()?;
        let number = self.number.as_ref()?;
        Some(match &self.account_file {
            Some(file) => folder.join(file),
            None => usual_file(folder, number),
        })
    }

    /// The trunk, if it has the preset.
    pub(super) fn whatsapp(&self, folder: &Path) -> Option<WhatsAppTrunk> {
        Some(WhatsAppTrunk {
            name: self.name.clone(),
            number: self.number.clone()?,
            password: self.password.clone(),
            file: self.account_file(folder)?,
            account: self.account.clone(),
            fault: self.account_fault.clone(),
        })
    }

    /// The called number, and the extensions.
    pub(super) fn numbers(&self) -> Result<(Option<String>, BTreeMap<String, String>), String> {
        let fault = |field: &str, text: &String| {
            Err(format!(
                "{field} is {text:?}; it must be like +622150001000"
            ))
        };
        if let Some(number) = self.number.as_ref().filter(|number| !is_number(number)) {
            return fault("number", number);
        }
        if self.extensions.len() > EXTENSIONS_MAX {
            return Err(format!("extensions may have {EXTENSIONS_MAX} entries"));
        }
        for (extension, number) in &self.extensions {
            let digits = extension.len();
            if !(2..=6).contains(&digits) || !extension.bytes().all(|b| b.is_ascii_digit()) {
                return Err(format!(
                    "the extension {extension:?} must have 2 to 6 digits"
                ));
            }
            if !is_number(number) {
                return fault("the number of an extension", number);
            }
        }
        Ok((self.number.clone(), self.extensions.clone()))
    }
}

/// True for an E.164 number with its plus.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('+').unwrap_or_default();
    (7..=15).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
        && !digits.starts_with('0')
}

/// A SIP URI, from any of the forms in which a registrar may be written.
pub(super) fn address(field: &str, text: &str) -> Result<String, String> {
    registrar(text).map_err(|fault| format!("{field} {fault}"))
}

/// The same for an outbound proxy.
pub(super) fn proxy_address(field: &str, text: &str) -> Result<String, String> {
    outbound_proxy(text).map_err(|fault| format!("{field} {fault}"))
}
