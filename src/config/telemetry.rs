//! The collector of spans.

use url::Url;

/// The path for traces of OTLP over HTTP, below the configured URL.
const TRACES: &str = "v1/traces";

/// Parses `telemetry.otlp_endpoint`: the collector's URL, or its URL for traces. Errors: the required form.
pub(super) fn traces(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.port() != Some(0)
    });
    let mut url = url.ok_or(
        "it must be the address of a collector that takes OTLP over HTTP, without user, password or query, such as \
         http://127.0.0.1:4318",
    )?;
    let path = url.path().trim_end_matches('/');
    if !path.ends_with(&format!("/{TRACES}")) {
        let whole = format!("{path}/{TRACES}");
        url.set_path(&whole);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_below_the_address_unless_it_names_them() {
        for (text, sent_to) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            (
                "https://otel.example.com/in",
                "https://otel.example.com/in/v1/traces",
            ),
            ("http://[::1]:9/v1/traces", "http://[::1]:9/v1/traces"),
            ("http://c/in/v1/traces", "http://c/in/v1/traces"),
        ] {
            assert_eq!(traces(text).as_ref().map(Url::as_str), Ok(sent_to));
        }
        for text in [
            "127.0.0.1:4318",
            "grpc://127.0.0.1:4317",
            "http://",
            "http://me:hush@c",
            "http://c?api-key=hush",
            "http://c#x",
            "http://c:0",
        ] {
            assert!(traces(text).is_err(), "{text}");
        }
    }
}
