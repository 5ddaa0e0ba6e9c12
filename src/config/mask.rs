//! Masks passwords in URLs.

use url::form_urlencoded;

/// Replaces a secret.
pub(super) const MASK: &str = "********";

/// Masks user and password of a URL.
pub(super) fn without_user(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{MASK}@{host}"),
        _ => text.to_owned(),
    }
}

/// Masks passwords of a URL, in its user part and its query. Works on the text, because a URL that no parser accepts,
/// such as one with an unescaped character in the password, is shown too.
pub(super) fn without_passwords(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let (before_query, query) = match rest.rsplit_once('@') {
        Some((user, host)) => {
            let user = user
                .split_once(':')
                .map_or(user.to_owned(), |(name, _)| format!("{name}:{MASK}"));
            let (host, query) = split_query(host);
            (format!("{user}@{host}"), query)
        }
        None => {
            let (host, query) = split_query(rest);
            (host.to_owned(), query)
        }
    };
    let query = query.map_or(String::new(), |query| {
        let parts: Vec<String> = query.split('&').map(without_password).collect();
        format!("?{}", parts.join("&"))
    });
    format!("{scheme}://{before_query}{query}")
}

fn split_query(text: &str) -> (&str, Option<&str>) {
    match text.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (text, None),
    }
}

fn without_password(parameter: &str) -> String {
    const NAMES: [&str; 5] = ["pass", "pwd", "secret", "token", "key"];
    match parameter.split_once('=') {
        Some((name, value)) if !value.is_empty() => {
            // Masks values with percent-encoded names too, and values that contain another parameter with a password.
            let plain = form_urlencoded::parse(parameter.as_bytes())
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<String>()
                .to_lowercase();
            let is_secret = name.contains('%') || NAMES.iter().any(|word| plain.contains(word));
            format!("{name}={}", if is_secret { MASK } else { value })
        }
        _ => parameter.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_can_be_a_secret_too() {
        for (url, expected) in [
            ("smtp://mail:25", "smtp://mail:25"),
            ("smtps://hush:hush@mail:465", "smtps://********@mail:465"),
            ("smtps://hu@sh:hu/sh@mail", "smtps://********@mail"),
            ("hush@mail", "hush@mail"),
        ] {
            assert_eq!(without_user(url), expected);
        }
    }

    #[test]
    fn no_spelling_of_a_url_shows_its_password() {
        for (url, expected) in [
            ("postgres://me:hush@h/d", "postgres://me:********@h/d"),
            (
                "postgres://me:hush%40@h/d?a=b",
                "postgres://me:********@h/d?a=b",
            ),
            ("postgres://me:hu@sh#/?@h/d", "postgres://me:********@h/d"),
            (
                "postgres://h/d?user=me&password=hush",
                "postgres://h/d?user=me&password=********",
            ),
            (
                "postgres://me@h/d?sslPassword=hush&x",
                "postgres://me@h/d?sslPassword=********&x",
            ),
            (
                "postgres://h/d?passw%6Frd=hush",
                "postgres://h/d?passw%6Frd=********",
            ),
            (
                "postgres://h/d?options=-c%20password%3Dhush&sslmode=require",
                "postgres://h/d?options=********&sslmode=require",
            ),
            (
                "postgres://h/d?options=-c%20p%61ssword%3Dhush",
                "postgres://h/d?options=********",
            ),
            ("smtp://u:hush@mail:587", "smtp://u:********@mail:587"),
            (
                "sqlite://dikala-data/dikala.db",
                "sqlite://dikala-data/dikala.db",
            ),
            (
                "https://app.example.com,https://b.example",
                "https://app.example.com,https://b.example",
            ),
        ] {
            assert_eq!(without_passwords(url), expected);
        }
    }
}
