//! Tests of the settings, valid and invalid.

use super::*;

fn settings(variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    let owned = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Settings::new(&Layers::load(None, owned)?)
}

#[test]
fn the_defaults_are_usable_but_for_the_secret() {
    let settings = settings(&[]).expect("the defaults are valid");
    assert_eq!(settings.api().http.business_per_minute, 300);
    assert!(settings.vault().is_err_and(|e| e.0.contains("openssl")));
}

#[test]
fn values_that_cannot_be_are_named_with_key_origin_and_value() {
    for (variable, value, words) in [
        ("HTTP__LISTEN", "nowhere", "http.listen is \"nowhere\""),
        ("HTTP__LISTEN", "localhost:80", "such as 127.0.0.1:8080"),
        ("HTTP__LISTEN", "", "must be set"),
        ("HTTP__SHUTDOWN_SECONDS", "0", "from 1 to 600"),
        ("HTTP__SHUTDOWN_SECONDS", "-1", "from 1 to 600"),
        ("HTTP__SHUTDOWN_SECONDS", "1.5", "whole number"),
        (
            "HTTP__MAX_CONNECTIONS",
            "99999999999999999999",
            "whole number",
        ),
        ("HTTP__TRUSTED_PROXIES", "127.0.0.1,proxy", "\"proxy\""),
        ("HTTP__CORS_ORIGINS", "*", "any origin"),
        ("HTTP__PUBLIC_URL", "voice.example.com", "scheme and host"),
        ("HTTP__PUBLIC_URL", "https://a.example/voice", "no path"),
        ("HTTP__PUBLIC_URL", "ftp://a.example", "https://"),
        (
            "HTTP__CORS_ORIGINS",
            "app.example.com",
            "\"app.example.com\"",
        ),
        ("HTTP__CORS_ORIGINS", "https://a.example/", "no origin"),
        (
            "HTTP__CORS_ORIGINS",
            "https://a.example,https://*.b.example",
            "*.b",
        ),
        ("HTTP__CORS_ORIGINS", "null", "no origin"),
        ("HTTP__CORS_ORIGINS", "https://me@a.example", "no origin"),
        (
            "HTTP__CORS_ORIGINS",
            "HTTPS://A.com",
            "browsers send https://a.com:",
        ),
        (
            "HTTP__CORS_ORIGINS",
            "https://a.com:443",
            "browsers send https://a.com:",
        ),
        ("HTTP__CORS_ORIGINS", "https://a.com:99999", "no origin"),
        ("HTTP__CORS_ORIGINS", "https://bücher.de", "https://xn--"),
        ("CALLS__WARN_BEFORE_SECONDS", "60", "1 to 55"),
        ("CALLS__WARN_BEFORE_SECONDS", "soon", "is \"soon\" (DIKALA_"),
        ("OUTBOUND__ALLOW_CIDRS", "10.0.0.0/8,home", "\"home\""),
        ("OUTBOUND__ALLOW_HTTP", "maybe", "true or false"),
        ("OPERATOR__LISTEN", "0.0.0.0:1", "operator.token"),
        ("OPERATOR__TOKEN", "short", "16"),
        ("OPERATOR__READ_TOKEN", "short", "16"),
        (
            "OPERATOR__READ_TOKEN",
            "long-enough-to-read",
            "operator.token is not",
        ),
        ("OPERATOR__TOKEN", "a token with blanks in it", "visible"),
        ("DATABASE__URL", "mysql://h/d", "postgres://"),
        ("DATABASE__URL", "sqlite://", "no file"),
        ("DATABASE__URL", "postgres://me:a/b@h/d", "%2F"),
        ("MAIL__URL", "mail.example.com", "smtps://user:password"),
        ("MAIL__URL", "https://mail.example.com", "smtp://"),
        ("MAIL__URL", "smtp://", "host"),
        ("MAIL__URL", "smtp://m.example/path", "such as"),
        ("MAIL__URL", "smtp://me@m.example", "both user and"),
        ("MAIL__URL", "smtp://m.example", "mail.from is not set"),
        ("MAIL__FROM", "nobody", "an email address"),
        ("MAIL__FROM", "me@m.example", "mail.url is not set"),
        (
            "TELEMETRY__OTLP_ENDPOINT",
            "127.0.0.1:4318",
            "OTLP over HTTP",
        ),
        ("NODE__NAME", "", "must be set"),
        ("NODE__NAME", "two\nlines", "control"),
        ("LOG__FORMAT", "xml", "json"),
        ("LOG__LEVEL", "warning", "did you mean warn?"),
        (
            "WEBHOOKS__RETRY_SCHEDULE_SECONDS",
            "0",
            "each entry must be from 1",
        ),
        ("WEBHOOKS__RETRY_SCHEDULE_SECONDS", "", "1 to 100 entries"),
    ] {
        let variable = format!("DIKALA_{variable}");
        let error = settings(&[(&variable, value)]).expect_err(&variable).0;
        assert!(error.contains(words), "{variable}={value}: {error}");
        let told = variable.ends_with("OPERATOR__LISTEN") || error.contains(&variable);
        assert!(told, "{variable}={value}: {error}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once_and_no_secret_with_it() {
    let error = settings(&[
        ("DIKALA_HTTP__SHUTDOWN_SECONDS", "soon"),
        ("DIKALA_LOG__LEVEL", "loud"),
        ("DIKALA_OPERATOR__TOKEN", "hush-hush"),
        ("DIKALA_DATABASE__URL", "postgres://me:hush/hush@h/d"),
    ]);
    let error = error.expect_err("four faults").0;
    assert_eq!(error.lines().count(), 4, "{error}");
    assert!(!error.contains("hush"), "{error}");
}

#[test]
fn origins_as_browsers_write_them_are_taken() {
    let origins = "https://app.example.com,http://localhost:5173,https://[::1]:1";
    settings(&[("DIKALA_HTTP__CORS_ORIGINS", origins)]).expect("origins");
}

#[test]
fn every_number_has_a_range() {
    let layers = Layers::load(None, []).expect("the defaults");
    for entry in layers.entries() {
        if entry.shown().parse::<i64>().is_ok() {
            let variable = format!("DIKALA_{}", entry.key.to_uppercase().replace('.', "__"));
            assert!(settings(&[(&variable, "-1")]).is_err(), "{}", entry.key);
        }
    }
}
