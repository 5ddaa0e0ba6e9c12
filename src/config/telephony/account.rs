//! The account of a business number at Meta, in a file that `dikala whatsapp setup` writes.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// The account of a business number at Meta, as `dikala whatsapp setup` found it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhatsAppAccount {
    pub phone_number_id: String,
    /// The address of Meta's Graph API.
    pub graph_url: String,
    /// Meta's password for SIP; none if the trunk has it in the configuration.
    pub password: Option<String>,
}

impl fmt::Debug for WhatsAppAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WhatsAppAccount")
            .field(&self.phone_number_id)
            .finish()
    }
}

impl WhatsAppAccount {
    /// Reads the file; `None` if there is none.
    ///
    /// Errors: why it cannot be used, without its name, which has the number.
    pub(super) fn read(file: &Path) -> Result<Option<Self>, String> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot be read: {error}")),
        };
        // The parser's error may show the password.
        let account = serde_json::from_str(&text);
        account
            .map(Some)
            .map_err(|error| format!("is damaged: line {} is wrong", error.line()))
    }

    /// Tries to write beside the file.
    pub fn try_write(file: &Path) -> io::Result<()> {
        let (_, new) = create_beside(file)?;
        fs::remove_file(new)
    }

    /// Replaces the file. Only its owner can read it.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let (mut written, new) = create_beside(file)?;
        writeln!(written, "{}", serde_json::to_string_pretty(self)?)?;
        written.sync_all()?;
        fs::rename(&new, file)
    }
}

/// A new empty file that will replace this one.
fn create_beside(file: &Path) -> io::Result<(File, PathBuf)> {
    let new = file.with_extension("new");
    let _ = fs::remove_file(&new);
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    Ok((created, new))
}

/// A trunk with the preset, as `check` and `dikala whatsapp setup` see it.
#[derive(Clone)]
pub struct WhatsAppTrunk {
    pub name: String,
    /// E.164.
    pub number: String,
    /// The password in the configuration, which wins over that of the account.
    pub password: Option<String>,
    /// The file of the account.
    pub file: PathBuf,
    pub account: Option<WhatsAppAccount>,
    /// Why the file cannot be used, without its name, which has the number.
    pub fault: Option<String>,
}

impl fmt::Debug for WhatsAppTrunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WhatsAppTrunk").field(&self.name).finish()
    }
}

impl WhatsAppTrunk {
    /// The password that the bridge uses.
    pub fn effective_password(&self) -> Option<&str> {
        let stored = self.account.as_ref();
        let stored = stored.and_then(|account| account.password.as_deref());
        self.password.as_deref().or(stored)
    }

    /// True if the trunk takes and makes no calls, because the file with its password cannot be used.
    pub fn is_out_of_service(&self) -> bool {
        self.fault.is_some() && self.password.is_none()
    }
}

/// The file of the account of a number, unless the trunk names another: it is in the folder of the configuration.
pub(super) fn usual_file(folder: &Path, number: &str) -> PathBuf {
    let digits = number.trim_start_matches('+');
    folder.join(format!("whatsapp-{digits}.json"))
}
