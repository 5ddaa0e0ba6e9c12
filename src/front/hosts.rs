//! Checks the host of a request. A listener without tokens relies on being reachable from this machine only. A
//! foreign web page can make its own name resolve to 127.0.0.1 and reach the listener from a browser here, but it
//! cannot make the browser send another `Host` than its own.

use std::net::IpAddr;

use actix_web::http::Uri;

/// True if the `Host` header names this machine: `localhost`, a name below it, or a loopback address.
pub fn is_loopback_host(host: &str) -> bool {
    let name = without_port(host);
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    if lower == "localhost" || lower.ends_with(".localhost") {
        return true;
    }
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>()
        .is_ok_and(|address| address.to_canonical().is_loopback())
}

/// True if the `Origin` header is the origin of this `Host`.
pub fn is_same_origin(origin: &str, host: &str) -> bool {
    origin.parse::<Uri>().is_ok_and(|origin| {
        origin.scheme_str() == Some("http")
            && origin
                .authority()
                .is_some_and(|authority| authority.as_str().eq_ignore_ascii_case(host))
    })
}

/// Removes the port: everything after the last colon outside brackets.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_and_of_others() {
        for own in [
            "localhost",
            "LOCALHOST:8081",
            "localhost.:8081",
            "dikala.localhost:1",
            "127.0.0.1",
            "127.0.0.1:8081",
            "127.8.9.1:1",
            "[::1]",
            "[::1]:8081",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(is_loopback_host(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "evil.example:8081",
            "localhost.evil.example",
            "127.0.0.1.evil.example:8081",
            "notlocalhost",
            "192.168.1.1:8081",
            "0.0.0.0:8081",
            "[::]:8081",
            "127.1",
        ] {
            assert!(!is_loopback_host(other), "{other}");
        }
    }

    #[test]
    fn origins_of_the_same_host_and_of_others() {
        assert!(is_same_origin("http://127.0.0.1:8081", "127.0.0.1:8081"));
        assert!(is_same_origin("http://LocalHost:8081", "localhost:8081"));
        for other in [
            "null",
            "http://127.0.0.1",
            "http://localhost:8081",
            "https://127.0.0.1:8081",
            "http://evil.example",
        ] {
            assert!(!is_same_origin(other, "127.0.0.1:8081"), "{other}");
        }
    }
}
