//! The operator's mail server, and the sender of mails.

use lettre::message::Mailbox;
use serde::Deserialize;
use url::Url;

/// The keys of the section `mail`.
#[derive(Clone, Default, Deserialize)]
pub(super) struct MailKeys {
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    from: Option<String>,
}

impl std::fmt::Debug for MailKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mail(…)")
    }
}

impl MailKeys {
    /// The mail server, if one is configured. The keys were checked before.
    pub(super) fn server(&self) -> Option<MailServer> {
        let url = url(self.url.as_deref()?).ok()?;
        let from = sender(self.from.as_deref()?).ok()?;
        Some(MailServer { url, from })
    }
}

/// The operator's mail server, and the sender of mails.
#[derive(Clone)]
pub struct MailServer {
    /// Scheme, user and password, host and port.
    pub url: Url,
    pub from: Mailbox,
}

impl std::fmt::Debug for MailServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MailServer(…)")
    }
}

/// Parses `mail.url`. Errors: the required form.
pub(super) fn url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| {
        matches!(url.scheme(), "smtp" | "smtps")
            && url.host_str().is_some_and(|host| !host.is_empty())
            && matches!(url.path(), "" | "/")
            && url.query().is_none()
            && url.fragment().is_none()
            && url.port() != Some(0)
    });
    let url = url.ok_or(
        "it must be smtp:// or smtps://, then user and password where the server asks for them, host and port, such as \
         smtps://user:password@mail.example.com:465; special characters of a password are written as %40 for @, %2F for /, %23 for #",
    )?;
    if url.username().is_empty() != url.password().is_none() {
        return Err("it must have both user and password, or neither".to_owned());
    }
    Ok(url)
}

/// Parses `mail.from`. Errors: the required form.
pub(super) fn sender(text: &str) -> Result<Mailbox, String> {
    text.parse().map_err(|_| {
        "it must be an email address, with or without a name, such as Dikala <no-reply@example.com>".to_owned()
    })
}
