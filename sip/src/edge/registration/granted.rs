//! The time that a registrar grants. Pure.

use crate::message::{Headers, Host, NameAddr, Uri};

/// Seconds granted by a 200: those of our Contact, else those of Expires; `None` if it names no time.
///
/// Our Contact is the one with our address. A registrar or a NAT may have replaced the address: then it is the one with our user,
/// of several the one that ends first, else the only one.
pub fn seconds(headers: &Headers, ours: &Uri) -> Option<u32> {
    let contacts = headers.list("Contact");
    let contacts: Vec<NameAddr> = { contacts.iter() }
        .filter_map(|it| it.parse().ok())
        .collect();
    let ours = match (find_address(&contacts, ours), &contacts[..]) {
        (Some(exact), _) => granted(exact),
        (None, [only]) => granted(only),
        (None, all) => {
            let with_user = all.iter().filter(|it| it.uri.user == ours.user);
            let times = with_user.filter_map(granted);
            // One of 0 seconds is an old one that ends.
            times.min_by_key(|seconds| (*seconds == 0, *seconds))
        }
    };
    ours.or_else(|| headers.get("Expires")?.parse().ok())
}

fn granted(contact: &NameAddr) -> Option<u32> {
    contact.param("expires")?.parse().ok()
}

/// The Contact with our host and port. Some registrars omit the default port.
fn find_address<'a>(contacts: &'a [NameAddr], ours: &Uri) -> Option<&'a NameAddr> {
    let is_host = |host: &Host| match (host, &ours.host) {
        (Host::Name(one), Host::Name(another)) => one.eq_ignore_ascii_case(another),
        (one, another) => one == another,
    };
    let is_port = |uri: &Uri| {
        let transport = uri.param("transport").unwrap_or_default();
        let is_tls = uri.scheme == "sips" || transport.eq_ignore_ascii_case("tls");
        let usual = if is_tls { 5061 } else { 5060 };
        Some(uri.port.unwrap_or(usual)) == ours.port
    };
    contacts
        .iter()
        .find(|contact| is_host(&contact.uri.host) && is_port(&contact.uri))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_that_of_our_contact() {
        for (contacts, port, expected) in [
            // By its address.
            ("<sip:6221@192.0.2.1:5070>;expires=30", 5070, Some(30)),
            (
                "<sip:6221@192.0.2.9:5070>;expires=10, <sip:6221@192.0.2.1:5070>;expires=30",
                5070,
                Some(30),
            ),
            (
                "<sip:6221@192.0.2.1>;expires=30, <sip:6221@192.0.2.1:5070>;expires=10",
                5060,
                Some(30),
            ),
            (
                "<sip:6221@192.0.2.1;transport=TLS>;expires=30, <sip:6221@192.0.2.1:5070>;expires=10",
                5061,
                Some(30),
            ),
            // By its user.
            (
                "<sip:6221@198.51.100.9:31234>;expires=30, <sip:7000@192.0.2.7>;expires=10",
                5060,
                Some(30),
            ),
            (
                "<sip:6221@198.51.100.9:31234>;expires=30, <sip:6221@198.51.100.9:31000>;expires=20",
                5060,
                Some(20),
            ),
            (
                "<sip:6221@198.51.100.9:31234>;expires=30, <sip:6221@198.51.100.9:31000>;expires=0",
                5060,
                Some(30),
            ),
            // The only one.
            ("<sip:line-7@198.51.100.9:31234>;expires=30", 5060, Some(30)),
            ("<sip:6221@192.0.2.1:5060>;expires=0", 5060, Some(0)),
            // None of ours, or without a time.
            (
                "<sip:a@192.0.2.8>;expires=30, <sip:b@192.0.2.9>;expires=20",
                5060,
                Some(600),
            ),
            ("<sip:6221@192.0.2.1:5060>", 5060, Some(600)),
            ("*", 5060, Some(600)),
        ] {
            let mut headers = Headers::default();
            headers.push("Contact", contacts);
            headers.push("Expires", "600");
            let ours = Uri::sip("6221", Host::Ip([192, 0, 2, 1].into()), Some(port));
            assert_eq!(seconds(&headers, &ours), expected, "{contacts}");
        }
        let ours = Uri::sip("6221", Host::Name("sip.example".to_owned()), Some(5060));
        assert_eq!(seconds(&Headers::default(), &ours), None);
        let mut headers = Headers::default();
        headers.push("Contact", "<sip:x@SIP.Example>;expires=30");
        headers.push("Contact", "<sip:6221@192.0.2.1>;expires=20");
        assert_eq!(seconds(&headers, &ours), Some(30));
    }
}
