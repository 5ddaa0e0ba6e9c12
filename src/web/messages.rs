//! The text frames of `dikala.web.v1`. Pure.

use dikala_entities::{CallId, HangupReason, Speaker, foreign_json};
use dikala_protocol::InvocationOutcome;
use dikala_telephony::call::CallNote;
use serde::Serialize;
use serde_json::{Map, Value};

/// A text frame of a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrowserMessage {
    /// A pressed key.
    Key(char),
    /// How much of the agent's speech was played since the call began, in milliseconds.
    Played(u64),
    HangUp,
}

impl BrowserMessage {
    /// `None` for what this version does not know.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let fields = foreign_json::object(text).ok()?;
        let field = |name: &str| fields.get(name);
        match field("type")?.as_str()? {
            "key" => {
                let key = field("key")?.as_str()?;
                let mut signs = key.chars();
                let sign = signs.next().filter(|_| signs.next().is_none())?;
                let is_key = sign.is_ascii_digit() || matches!(sign, '*' | '#' | 'A'..='D');
                is_key.then_some(Self::Key(sign))
            }
            "played" => field("ms")?.as_u64().map(Self::Played),
            "hangup" => Some(Self::HangUp),
            _ => None,
        }
    }
}

/// The state of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FunctionStatus {
    Running,
    Ok,
    Error,
}

/// A text frame of the service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub(super) enum ServiceMessage {
    /// The call is answered.
    Ready {
        call_id: CallId,
    },
    /// The browser drops the speech that it has not played.
    Clear,
    Turn {
        role: Speaker,
        text: String,
        /// The turn is over. Later turns with the same `n` replace it.
        r#final: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        n: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        latency_ms: Option<u32>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    Function {
        name: String,
        status: FunctionStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        parameters: Option<Map<String, Value>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Map<String, Value>>,
        /// The code of a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    Ended {
        reason: HangupReason,
    },
}

impl ServiceMessage {
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The message for a note; `None` if the page is not told. `is_detailed`: functions are shown whole.
    pub(super) fn of(note: CallNote, is_detailed: bool) -> Option<Self> {
        let function = |name, status| Self::Function {
            name,
            status,
            parameters: None,
            result: None,
            code: None,
        };
        Some(match note {
            CallNote::Taken(_) | CallNote::Ended(_) => return None,
            CallNote::Saying { role, text } => Self::Turn {
                role,
                text,
                r#final: false,
                n: None,
                latency_ms: None,
                interrupted: false,
            },
            CallNote::Said { n, turn } => Self::Turn {
                role: turn.role,
                text: turn.text,
                r#final: true,
                n: Some(n),
                latency_ms: turn.latency_ms,
                interrupted: turn.interrupted,
            },
            CallNote::Calling { name, parameters } if is_detailed => Self::Function {
                name,
                status: FunctionStatus::Running,
                parameters: Some(parameters),
                result: None,
                code: None,
            },
            CallNote::Calling { name, .. } => function(name, FunctionStatus::Running),
            CallNote::Called { name, outcome } => match outcome {
                InvocationOutcome::Ok { result } => Self::Function {
                    name,
                    status: FunctionStatus::Ok,
                    parameters: None,
                    result: is_detailed.then_some(result),
                    code: None,
                },
                InvocationOutcome::Error { code, .. } => Self::Function {
                    name,
                    status: FunctionStatus::Error,
                    parameters: None,
                    result: None,
                    code: is_detailed.then_some(code),
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use dikala_protocol::SpokenTurn;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_browser_says_is_read_and_nothing_panics() {
        use BrowserMessage::{HangUp, Key, Played};
        for (text, expected) in [
            (r##"{"type":"key","key":"#"}"##, Some(Key('#'))),
            (r#"{"type":"key","key":"5"}"#, Some(Key('5'))),
            (r#"{"type":"key","key":"55"}"#, None),
            (r#"{"type":"key","key":"x"}"#, None),
            (r#"{"type":"key","key":""}"#, None),
            (r#"{"type":"played","ms":1200}"#, Some(Played(1_200))),
            (r#"{"type":"played","ms":-1}"#, None),
            (r#"{"type":"played","ms":1e99}"#, None),
            (r#"{"type":"hangup"}"#, Some(HangUp)),
            (r#"{"type":"dance"}"#, None),
            ("[]", None),
            ("{", None),
            ("", None),
        ] {
            assert_eq!(BrowserMessage::read(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_page_for_customers_shows_functions_by_their_names_alone() {
        let object = |value: Value| value.as_object().cloned().expect("an object");
        let calling = CallNote::Calling {
            name: "check_order".to_owned(),
            parameters: object(json!({"number": "A7"})),
        };
        let called = CallNote::Called {
            name: "check_order".to_owned(),
            outcome: InvocationOutcome::Ok {
                result: object(json!({"minutes": 20})),
            },
        };
        let text = |note: &CallNote, is_detailed| {
            ServiceMessage::of(note.clone(), is_detailed)
                .expect("it is told")
                .to_text()
        };
        assert_eq!(
            text(&calling, true),
            r#"{"type":"function","name":"check_order","status":"running","parameters":{"number":"A7"}}"#
        );
        assert_eq!(
            text(&called, true),
            r#"{"type":"function","name":"check_order","status":"ok","result":{"minutes":20}}"#
        );
        assert_eq!(
            text(&calling, false),
            r#"{"type":"function","name":"check_order","status":"running"}"#
        );
        assert_eq!(
            text(&called, false),
            r#"{"type":"function","name":"check_order","status":"ok"}"#
        );
    }

    #[test]
    fn turns_are_written_as_they_grow_and_when_they_are_over() {
        let text = |note| {
            ServiceMessage::of(note, false)
                .expect("it is told")
                .to_text()
        };
        let role = Speaker::Caller;
        let said = "Two coffees.".to_owned();
        assert_eq!(
            text(CallNote::Saying {
                role,
                text: said.clone()
            }),
            r#"{"type":"turn","role":"caller","text":"Two coffees.","final":false}"#
        );
        let turn = SpokenTurn {
            latency_ms: Some(640),
            interrupted: true,
            ..SpokenTurn::new(Speaker::Agent, said, None)
        };
        assert_eq!(
            text(CallNote::Said { n: 2, turn }),
            r#"{"type":"turn","role":"agent","text":"Two coffees.","final":true,"n":2,"latencyMs":640,"interrupted":true}"#
        );
    }
}
