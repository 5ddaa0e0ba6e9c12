//! The caller's and the called number of an INVITE. Pure.

use crate::{
    message::{NameAddr, SipRequest},
    numbers::{self, Number},
    settings::{RegisterSettings, Trunk},
};

/// Called numbers of an INVITE that are tried, at most. Each costs a question to the call service.
const FOUND_MAX: usize = 4;
/// Headers with the caller's number.
const CALLERS: [&str; 3] = ["From", "P-Asserted-Identity", "P-Preferred-Identity"];
/// Headers with the called number, in order of preference, for a Request-URI without it.
const CALLED: [&str; 3] = ["P-Called-Party-ID", "To", "Diversion"];

/// No header has a called number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCalledNumber {
    /// One has the beginning of a number.
    Incomplete,
    None,
}

/// The called numbers: the usable ones of the Request-URI and of [`CALLED`], in this order. The first that is a tenant's counts.
///
/// A registrar puts our Contact, and so our account, into the Request-URI; elsewhere it stands where no number is known. So the
/// account is no called number, except one that is mapped as an extension, and one that is a number of its own: see
/// [`numbers::is_dialled_in_full`].
pub fn called_numbers(request: &SipRequest, trunk: &Trunk) -> Result<Vec<String>, NoCalledNumber> {
    if let Some(number) = &trunk.number {
        return Ok(vec![number.clone()]);
    }
    let prefix = trunk.prefix.as_deref();
    let register = trunk.register.as_ref();
    let account = register.map(RegisterSettings::account);
    let of_uri = std::iter::once((request.uri.user.clone(), false));
    let named = CALLED.iter().flat_map(|name| users(request, name));
    let callers: Vec<String> = CALLERS
        .iter()
        .flat_map(|name| users(request, name))
        .collect();
    // A call to a person has the called number there, and may come back to us: it must not call that number again.
    let named = named.filter(|user| !callers.contains(user));
    let (mut found, mut missing) = (Vec::new(), NoCalledNumber::None);
    for (user, may_be_account) in of_uri.chain(named.map(|user| (user, true))) {
        let user = user.split(';').next().unwrap_or_default();
        let number = match trunk.extensions.get(user) {
            Some(number) => Number::E164(number.clone()),
            None if Some(user) == account
                && !(may_be_account && numbers::is_dialled_in_full(user, prefix)) =>
            {
                continue;
            }
            None => numbers::e164(user, prefix),
        };
        match number {
            Number::None => {}
            Number::Incomplete => missing = NoCalledNumber::Incomplete,
            Number::E164(number) if found.contains(&number) => {}
            Number::E164(number) => found.push(number),
        }
        if found.len() == FOUND_MAX {
            break;
        }
    }
    if found.is_empty() {
        return Err(missing);
    }
    Ok(found)
}

/// The caller's number: the identity asserted by a trusted trunk, else the peer's From. Nobody's, if the caller withholds it.
pub fn caller_number(request: &SipRequest, trunk: &Trunk, trusted: bool) -> String {
    let prefix = trunk.prefix.as_deref();
    let says = match is_withheld(request) {
        true => None,
        false => trusted
            .then(|| asserted(request, prefix))
            .flatten()
            .or_else(|| users(request, "From").next()),
    };
    numbers::caller(&says.unwrap_or_default(), prefix)
}

/// The asserted identity. There may be two, a name and a number (RFC 3325, 9.1): the first number counts, else the first.
fn asserted(request: &SipRequest, prefix: Option<&str>) -> Option<String> {
    let all: Vec<String> = users(request, "P-Asserted-Identity").collect();
    let is_number = |user: &&String| matches!(numbers::e164(user, prefix), Number::E164(_));
    all.iter().find(is_number).or(all.first()).cloned()
}

/// True if the caller asks that nobody learns the number (RFC 3323, RFC 3325).
fn is_withheld(request: &SipRequest) -> bool {
    let values = request.headers.all("Privacy");
    let mut values = values.flat_map(|value| value.split([';', ',']));
    values.any(|value| {
        let kinds = ["id", "header", "user"];
        kinds
            .iter()
            .any(|kind| value.trim().eq_ignore_ascii_case(kind))
    })
}

/// The users in an address header.
fn users(request: &SipRequest, name: &str) -> impl Iterator<Item = String> {
    let addresses = request.headers.list(name).into_iter();
    addresses.filter_map(|address| {
        let address: NameAddr = address.parse().ok()?;
        (!address.uri.user.is_empty()).then_some(address.uri.user)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{message::Method, settings::Credentials};

    fn invite(user: &str, headers: &[(&str, &str)]) -> SipRequest {
        let uri = format!("sip:{user}@192.0.2.1");
        let mut request = SipRequest::new(Method::Invite, uri.parse().expect("a URI"));
        for (name, value) in headers {
            request.headers.push(name, value);
        }
        request
    }

    fn registered(account: &str) -> Trunk {
        Trunk {
            prefix: Some("+62".to_owned()),
            extensions: [("500".to_owned(), "+622150001500".to_owned())].into(),
            register: Some(RegisterSettings {
                credentials: Credentials {
                    username: account.to_owned(),
                    ..Credentials::default()
                },
                ..RegisterSettings::default()
            }),
            ..Trunk::default()
        }
    }

    #[test]
    fn the_called_number_is_never_our_account() {
        let did = "+622150001000";
        let to = ("To", "<sip:02150001000@shop>");
        let account = ("To", "<sip:123456@shop>");
        let party = ("P-Called-Party-ID", "<sip:+622150001000@ims>");
        let other = ("P-Called-Party-ID", "<sip:500@ims>");
        let diverted = ("Diversion", "<tel:+622150001000>;reason=unconditional");
        type Found = Result<Vec<String>, NoCalledNumber>;
        let found = |number: &str| Found::Ok(vec![number.to_owned()]);
        let both = |first: &str, other: &str| Found::Ok(vec![first.to_owned(), other.to_owned()]);
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Found);
        let table: &[Case<'_>] = &[
            ("123456", &[to], found(did)),
            ("123456", &[account, party], found(did)),
            ("123456", &[account, diverted], found(did)),
            ("123456", &[account], Err(NoCalledNumber::None)),
            ("123456", &[], Err(NoCalledNumber::None)),
            ("123456", &[to, other], both("+622150001500", did)),
            ("02150001000", &[other], both(did, "+622150001500")),
            ("02150001000", &[other, to], both(did, "+622150001500")),
            ("ayu", &[to], found(did)),
            ("112", &[to], found(did)),
            ("112", &[account], Err(NoCalledNumber::None)),
            ("+6221", &[account], Err(NoCalledNumber::Incomplete)),
            ("500", &[to], both("+622150001500", did)),
            ("500;ext=1", &[], found("+622150001500")),
            ("123456;tgrp=a", &[to], found(did)),
            ("123456;tgrp=a", &[], Err(NoCalledNumber::None)),
            // The customer number of another carrier is not +62654321.
            ("654321", &[to], found(did)),
            ("654321", &[account], Err(NoCalledNumber::None)),
            ("%2B622150001000", &[], found(did)),
            // A call to a person that comes back.
            (
                "ayu",
                &[diverted, ("P-Preferred-Identity", "<sip:+622150001000@us>")],
                Err(NoCalledNumber::None),
            ),
            (
                "ayu",
                &[diverted, ("From", "<sip:+622150001000@us>;tag=a")],
                Err(NoCalledNumber::None),
            ),
        ];
        for (user, headers, expected) in table {
            let number = called_numbers(&invite(user, headers), &registered("123456"));
            assert_eq!(number, *expected, "{user} {headers:?}");
        }
        // An account that is a number in full is the called number if nothing else is named.
        let pilot = registered("+622150001000");
        let itself = ("To", "<sip:+622150001000@shop>");
        let headers: [(&[(&str, &str)], Found); 2] = [
            (&[itself], found(did)),
            (&[itself, other], both("+622150001500", did)),
        ];
        for (headers, expected) in headers {
            let numbers = called_numbers(&invite(did, headers), &pilot);
            assert_eq!(numbers, expected, "{headers:?}");
        }
        for account in ["622150001000", "00622150001000", "02150001000"] {
            let itself: [_; 1] = [("To", &*format!("<sip:{account}@shop>"))];
            let numbers = called_numbers(&invite(account, &itself), &registered(account));
            assert_eq!(numbers, found(did), "{account}");
        }
        for customer in ["6212345", "2150001000", "021500010"] {
            let itself: [_; 1] = [("To", &*format!("<sip:{customer}@shop>"))];
            let numbers = called_numbers(&invite(customer, &itself), &registered(customer));
            assert_eq!(numbers, Err(NoCalledNumber::None), "{customer}");
        }
        // An account that the operator mapped is an extension.
        let headers: [&[(&str, &str)]; 2] = [&[], &[("To", "<sip:500;ext=1@shop>")]];
        for headers in headers {
            let number = called_numbers(&invite("500", headers), &registered("500"));
            assert_eq!(number, found("+622150001500"), "{headers:?}");
        }
        let fixed = Trunk {
            number: Some(did.to_owned()),
            ..registered("123456")
        };
        assert_eq!(called_numbers(&invite("ayu", &[]), &fixed), found(did));
    }

    #[test]
    fn a_caller_who_withholds_the_number_is_anonymous() {
        let from = ("From", "<sip:08123456789@phone>;tag=f");
        let asserted = ("P-Asserted-Identity", "<tel:+622150009999>");
        for (privacy, expected) in [
            ("id", "anonymous"),
            ("header", "anonymous"),
            ("critical; ID", "anonymous"),
            ("user;id", "anonymous"),
            ("none", "+622150009999"),
            ("session, history", "+622150009999"),
        ] {
            let headers = [from, asserted, ("Privacy", privacy)];
            let request = invite("+622150001000", &headers);
            let number = caller_number(&request, &registered("1"), true);
            assert_eq!(number, expected, "{privacy}");
        }
        let request = invite("+622150001000", &[from, asserted]);
        let number = caller_number(&request, &registered("1"), false);
        assert_eq!(number, "+628123456789", "only trunks assert");
    }

    /// A carrier may assert a SIP URI and a telephone number, in one header or in two.
    #[test]
    fn of_two_asserted_identities_the_number_is_the_callers() {
        let (name, number) = ("\"Ayu\" <sip:ayu@ims.example>", "<tel:+622150009999>");
        let both = format!("{name}, {number}");
        let other = "<sip:02150008888@ims.example;user=phone>";
        for (asserted, expected) in [
            (&[name, number][..], "+622150009999"),
            (&[number, name], "+622150009999"),
            (&[&both], "+622150009999"),
            (&[name, other, number], "+622150008888"),
            (&[name], "ayu"),
            (&[name, "<sip:1001@ims.example>"], "ayu"),
            (&["<sip:ims.example>"], "+628123456789"),
        ] {
            let mut headers = vec![("From", "<sip:08123456789@phone>;tag=f")];
            headers.extend(asserted.iter().map(|it| ("P-Asserted-Identity", *it)));
            let request = invite("+622150001000", &headers);
            let found = caller_number(&request, &registered("1"), true);
            assert_eq!(found, expected, "{asserted:?}");
        }
    }
}
