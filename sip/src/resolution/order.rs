//! The order in which the servers of a SIP service are tried (RFC 3263, RFC 2782). Pure.

use super::records::{PointerRecord, ServiceRecord};
use crate::settings::SipTransport;

/// Services that a name may have, the preferred one first, by the names of its NAPTR and SRV records.
const SERVICES: [(SipTransport, &str, &str); 3] = [
    (SipTransport::Udp, "SIP+D2U", "_sip._udp."),
    (SipTransport::Tcp, "SIP+D2T", "_sip._tcp."),
    (SipTransport::Tls, "SIPS+D2T", "_sips._tcp."),
];

/// The names of SRV records, in the order of the domain's NAPTR records; without any, the usual names of these transports.
pub fn service_names(
    name: &str,
    transport: Option<SipTransport>,
    mut pointers: Vec<PointerRecord>,
) -> Vec<(SipTransport, String)> {
    pointers.sort_by_key(|pointer| (pointer.order, pointer.preference));
    let pointed = pointers.into_iter().filter_map(|pointer| {
        let mut services = SERVICES.iter();
        let (transport, ..) =
            services.find(|(_, service, _)| pointer.service.eq_ignore_ascii_case(service))?;
        let leads = pointer.flags.eq_ignore_ascii_case("s") && !pointer.replacement.is_empty();
        leads.then_some((*transport, pointer.replacement))
    });
    let mut names: Vec<_> = pointed.take(SERVICES.len()).collect();
    if names.is_empty() {
        let usual = SERVICES.iter();
        let usual = usual.filter(|(of, ..)| transport.is_none_or(|transport| transport == *of));
        names.extend(usual.map(|(of, _, prefix)| (*of, format!("{prefix}{name}"))));
    }
    names
}

/// True if the records say that there is no such service: their only target is the root (RFC 2782).
pub fn is_declined(services: &[ServiceRecord]) -> bool {
    !services.is_empty() && services.iter().all(|service| service.target.is_empty())
}

/// Servers by priority, and at random by weight among those of the same (RFC 2782). A target of the root is no server.
pub fn by_weight(
    mut services: Vec<ServiceRecord>,
    mut random: impl FnMut() -> u32,
) -> Vec<ServiceRecord> {
    services.retain(|service| !service.target.is_empty());
    // Those without weight come first, so that they have a small chance.
    services.sort_by_key(|service| (service.priority, service.weight != 0));
    let mut ordered: Vec<ServiceRecord> = Vec::with_capacity(services.len());
    while let Some(first) = services.first() {
        let priority = first.priority;
        let equal = services.iter().take_while(|one| one.priority == priority);
        let sum: u32 = equal.map(|one| u32::from(one.weight)).sum();
        let chosen = random() % (sum + 1);
        let mut running = 0;
        let at = services.iter().position(|one| {
            running += u32::from(one.weight);
            running >= chosen
        });
        ordered.push(services.remove(at.unwrap_or_default()));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(priority: u16, weight: u16, target: &str) -> ServiceRecord {
        ServiceRecord {
            priority,
            weight,
            port: 5060,
            target: target.to_owned(),
        }
    }

    #[test]
    fn servers_are_tried_by_priority_and_weight() {
        let services = || {
            vec![
                service(20, 0, "last"),
                service(10, 1, "small"),
                service(10, 3, "large"),
                service(10, 0, "none"),
                service(5, 0, ""),
            ]
        };
        let names = |random: u32| {
            let ordered = by_weight(services(), || random);
            let names = ordered.into_iter().map(|service| service.target);
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(0), "none small large last");
        assert_eq!(names(1), "small large none last");
        assert_eq!(names(4), "large none small last");
        let firsts = (0..5).map(|random| by_weight(services(), || random).remove(0).target);
        let large = firsts.filter(|first| first == "large").count();
        assert_eq!(large, 3, "three of five");
    }

    #[test]
    fn a_service_is_declined_by_the_root_as_its_only_target() {
        for (targets, expected) in [
            (&[][..], false),
            (&[""][..], true),
            (&["", "sbc"][..], false),
            (&["sbc"][..], false),
        ] {
            let services: Vec<_> = targets.iter().map(|it| service(1, 0, it)).collect();
            assert_eq!(is_declined(&services), expected, "{targets:?}");
        }
    }

    #[test]
    fn services_are_those_of_the_domain_or_the_usual_ones() {
        let pointer = |order, service: &str, replacement: &str| PointerRecord {
            order,
            preference: 0,
            flags: "S".to_owned(),
            service: service.to_owned(),
            replacement: replacement.to_owned(),
        };
        let pointers = vec![
            pointer(50, "sip+d2u", "u.example"),
            pointer(10, "SIPS+D2T", "s.example"),
            pointer(5, "E2U+sip", "e.example"),
            pointer(1, "SIP+D2T", ""),
        ];
        let names = service_names("example", None, pointers);
        let expected = [
            (SipTransport::Tls, "s.example"),
            (SipTransport::Udp, "u.example"),
        ];
        assert_eq!(names, expected.map(|(of, name)| (of, name.to_owned())));
        let usual = service_names("example", None, Vec::new());
        let usual: Vec<_> = usual.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(
            usual,
            [
                "_sip._udp.example",
                "_sip._tcp.example",
                "_sips._tcp.example"
            ]
        );
        let tcp = service_names("example", Some(SipTransport::Tcp), Vec::new());
        assert_eq!(tcp, [(SipTransport::Tcp, "_sip._tcp.example".to_owned())]);
    }
}
