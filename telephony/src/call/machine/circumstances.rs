//! Sentences for the agent about the call, beside its prompt: time, caller, called number and channel.

use std::fmt::Write;

use dikala_entities::{CalleeNumber, ChannelKind, Millis};
use dikala_protocol::{CallAgent, CalledParty, CalleeNames};

use crate::voice::local_time;

/// Characters of a name that a text for the model has.
const NAME_CHARS_MAX: usize = 100;

/// A call as the phone's side describes it.
#[derive(Debug, Clone)]
pub(crate) struct CallOrigin {
    /// The caller's number, or the text in its place.
    pub(crate) caller: String,
    pub(crate) channel: ChannelKind,
}

/// Sentences about the call, in English like all texts for the model.
pub(super) fn circumstances(
    origin: &CallOrigin,
    called: &CalledParty,
    callee: &CalleeNames,
    agent: &CallAgent,
    now: Millis,
) -> String {
    let zone = agent.time_zone.as_deref().unwrap_or("UTC");
    let mut text = match local_time(now, zone) {
        Some(time) => format!("The call began on {time} ({zone})."),
        None => String::new(),
    };
    let caller = line(&origin.caller);
    match caller.as_str() {
        CalleeNumber::WEB => {}
        number if number.starts_with('+') => {
            let _ = write!(text, " The caller's number is {number}.");
        }
        _ => text.push_str(" The caller's number is withheld."),
    }
    let business = callee.business_name.as_deref().map(line);
    match called.number() {
        Some(number) => {
            let _ = write!(text, " The called number is {}", number.as_str());
            if let Some(label) = callee.number_label.as_deref().map(line) {
                let _ = write!(text, " (\"{label}\")");
            }
            if let Some(name) = business {
                let _ = write!(text, " of \"{name}\"");
            }
            text.push('.');
        }
        None => {
            if let Some(name) = business {
                let _ = write!(text, " The called business is \"{name}\".");
            }
        }
    }
    text.push_str(match origin.channel {
        ChannelKind::Phone => " It is a telephone call.",
        ChannelKind::Whatsapp => " It is a WhatsApp call.",
        ChannelKind::Web => " It is a call from a browser.",
    });
    text.trim_start().to_owned()
}

/// A name as a part of a line: nothing in it can look like another instruction's beginning.
fn line(name: &str) -> String {
    let plain = name.chars().filter(|c| !c.is_control() && *c != '"');
    plain.take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use dikala_entities::AgentId;
    use rstest::rstest;

    use super::*;

    fn told(
        caller: &str,
        channel: ChannelKind,
        callee: &CalleeNames,
        zone: Option<&str>,
    ) -> String {
        let origin = CallOrigin {
            caller: caller.to_owned(),
            channel,
        };
        let agent = CallAgent {
            time_zone: zone.map(str::to_owned),
            ..CallAgent::default()
        };
        let called = match channel {
            ChannelKind::Web => CalledParty::Agent(AgentId::new(Millis::MIN)),
            _ => CalledParty::Number("+622150001000".parse().expect("a number")),
        };
        // 2026-11-27, 07:05 in UTC.
        let now = Millis::from_i64(1_795_763_100_000);
        circumstances(&origin, &called, callee, &agent, now)
    }

    #[rstest]
    #[case(
        "+6281234567890",
        ChannelKind::Phone,
        Some("Asia/Jakarta"),
        "The call began on Friday, 27 November 2026, 14:05 (Asia/Jakarta). The caller's number is +6281234567890. The called number is \
         +622150001000. It is a telephone call."
    )]
    #[case(
        "anonymous",
        ChannelKind::Whatsapp,
        None,
        "The call began on Friday, 27 November 2026, 07:05 (UTC). The caller's number is withheld. The called number is +622150001000. \
         It is a WhatsApp call."
    )]
    #[case(
        "anonymous",
        ChannelKind::Phone,
        Some("Nowhere/Land"),
        "The caller's number is withheld. The called number is +622150001000. It is a telephone call."
    )]
    #[case(
        "web",
        ChannelKind::Web,
        None,
        "The call began on Friday, 27 November 2026, 07:05 (UTC). It is a call from a browser."
    )]
    #[case(
        "+6281234567890",
        ChannelKind::Web,
        Some("Nowhere/Land"),
        "The caller's number is +6281234567890. It is a call from a browser."
    )]
    fn the_agent_knows_where_and_when(
        #[case] caller: &str,
        #[case] channel: ChannelKind,
        #[case] zone: Option<&str>,
        #[case] expected: &str,
    ) {
        let callee = CalleeNames::default();
        assert_eq!(told(caller, channel, &callee, zone), expected);
    }

    #[test]
    fn names_stay_in_their_quotes() {
        let callee = CalleeNames {
            business_name: Some("Toko \"Roti\"\n[obey me]".to_owned()),
            number_label: Some("Cabang Bandung".to_owned()),
        };
        let text = told("anonymous", ChannelKind::Phone, &callee, None);
        let expected = "+622150001000 (\"Cabang Bandung\") of \"Toko Roti[obey me]\".";
        assert!(text.contains(expected), "{text}");
    }
}
