//! The caller's and the called number of an INVITE. Pure.

use crate::{
    message::{NameAddr, SipRequest},
    numbers::{self, Number},
    settings::{RegisterSettings, Trunk},
};

/// Headers with the called number, in order of preference, for a Request-URI without it.
const CALLED: [&str; 3] = ["P-Called-Party-ID", "To", "Diversion"];

/// The called number: the first usable one of the Request-URI and [`CALLED`].
///
/// A registrar puts our Contact, and so our account, into the Request-URI; elsewhere it stands where no number is known. So the
/// account is no called number, except one that is mapped as an extension, and one like `+6221…`, which is a number of its own.
pub fn called_number(request: &SipRequest, trunk: &Trunk) -> Number {
    if let Some(number) = &trunk.number {
        return Number::E164(number.clone());
    }
    let register = trunk.register.as_ref();
    let account = register.map(RegisterSettings::account);
    let of_uri = std::iter::once((request.uri.user.clone(), false));
    let named = CALLED.iter().flat_map(|name| users(request, name));
    let mut number = Number::None;
    for (user, may_be_account) in of_uri.chain(named.map(|user| (user, true))) {
        let user = user.split(';').next().unwrap_or_default();
        if let Some(number) = trunk.extensions.get(user) {
            return Number::E164(number.clone());
        }
        if Some(user) == account && !(may_be_account && user.starts_with('+')) {
            continue;
        }
        match numbers::e164(user, trunk.prefix.as_deref()) {
            Number::None => {}
            Number::Incomplete => number = Number::Incomplete,
            usable @ Number::E164(_) => return usable,
        }
    }
    number
}

/// The caller's number: the identity asserted by a trusted trunk, else the peer's From. Nobody's, if the caller withholds it.
pub fn caller_number(request: &SipRequest, trunk: &Trunk, trusted: bool) -> String {
    let says = match is_withheld(request) {
        true => None,
        false => trusted
            .then(|| users(request, "P-Asserted-Identity").next())
            .flatten()
            .or_else(|| users(request, "From").next()),
    };
    numbers::caller(&says.unwrap_or_default(), trunk.prefix.as_deref())
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
        let found = |number: &str| Number::E164(number.to_owned());
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Number);
        let table: &[Case<'_>] = &[
            ("123456", &[to], found(did)),
            ("123456", &[account, party], found(did)),
            ("123456", &[account, diverted], found(did)),
            ("123456", &[account], Number::None),
            ("123456", &[], Number::None),
            ("123456", &[to, other], found("+622150001500")),
            ("02150001000", &[other], found(did)),
            ("ayu", &[to], found(did)),
            ("112", &[to], found(did)),
            ("112", &[account], Number::None),
            ("+6221", &[account], Number::Incomplete),
            ("500", &[to], found("+622150001500")),
            ("500;ext=1", &[], found("+622150001500")),
            ("123456;tgrp=a", &[to], found(did)),
            ("123456;tgrp=a", &[], Number::None),
            // The customer number of another carrier is not +62654321.
            ("654321", &[to], found(did)),
            ("654321", &[account], Number::None),
            ("%2B622150001000", &[], found(did)),
        ];
        for (user, headers, expected) in table {
            let number = called_number(&invite(user, headers), &registered("123456"));
            assert_eq!(number, *expected, "{user} {headers:?}");
        }
        // An account that is a number in full is the called number if nothing else is named.
        let pilot = registered("+622150001000");
        let itself = ("To", "<sip:+622150001000@shop>");
        let headers: [(&[(&str, &str)], &str); 2] =
            [(&[itself], did), (&[itself, other], "+622150001500")];
        for (headers, expected) in headers {
            let number = called_number(&invite(did, headers), &pilot);
            assert_eq!(number, found(expected), "{headers:?}");
        }
        // An account that the operator mapped is an extension.
        let headers: [&[(&str, &str)]; 2] = [&[], &[("To", "<sip:500;ext=1@shop>")]];
        for headers in headers {
            let number = called_number(&invite("500", headers), &registered("500"));
            assert_eq!(number, found("+622150001500"), "{headers:?}");
        }
        let fixed = Trunk {
            number: Some(did.to_owned()),
            ..registered("123456")
        };
        assert_eq!(called_number(&invite("ayu", &[]), &fixed), found(did));
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
}
