//! Removes the summary, or all personal data, from announced events.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The fields that remain in an erased event; all others become null.
const KEPT: &[&str] = &[
    "agentId",
    "aiCostIdr",
    "callId",
    "calleeNumber",
    "did",
    "durationSeconds",
    "functionName",
    "hangupInitiator",
    "hangupReason",
    "phoneNumberId",
    "startedAt",
    "talkTimeSeconds",
];
const SUMMARY: &str = "transcriptSummary";

#[derive(Deserialize, Serialize)]
struct Body {
    event: Value,
    timestamp: Value,
    data: Map<String, Value>,
}

/// The body of a call's event without the caller's number, summary, parameters and results: those fields become null.
pub fn without_personal_data(body: &str) -> String {
    blank(body, |field| !KEPT.contains(&field))
}

/// The body of a call's event without its summary.
pub fn without_summary(body: &str) -> String {
    blank(body, |field| field == SUMMARY)
}

/// An unreadable body is replaced by an empty one.
fn blank(body: &str, goes: impl Fn(&str) -> bool) -> String {
    let Ok(mut body) = serde_json::from_str::<Body>(body) else {
        return r#"{"event":null,"timestamp":null,"data":{}}"#.to_owned();
    };
    for (field, value) in &mut body.data {
        if goes(field) {
            *value = Value::Null;
        }
    }
    serde_json::to_string(&body).expect("JSON values are written as JSON")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_are_not_listed_are_erased() {
        let body = json!({"event": "call.ended", "timestamp": "2026-01-15T03:30:00.000Z", "data": {
            "callId": "call_1", "callerNumber": "+6281234567890", "calleeNumber": "+62215550100",
            "durationSeconds": 9, "transcriptSummary": "Something private.", "added": {"later": "+6281234567890"},
        }});
        let erased = without_personal_data(&body.to_string());
        assert_eq!(
            erased,
            r#"{"event":"call.ended","timestamp":"2026-01-15T03:30:00.000Z","data":{"added":null,"callId":"call_1","calleeNumber":"+62215550100","callerNumber":null,"durationSeconds":9,"transcriptSummary":null}}"#
        );
        let unsaid: Value =
            serde_json::from_str(&without_summary(&body.to_string())).expect("JSON");
        let mut expected = body;
        expected["data"]["transcriptSummary"] = Value::Null;
        assert_eq!(unsaid, expected);
        assert!(!without_personal_data("+6281234567890").contains("628"));
    }
}
