//! Removes the summary, or all personal data, from announced events.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::functions::FaultCode;

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
    "voiceProvider",
];
const SUMMARY: &str = "transcriptSummary";

#[derive(Deserialize, Serialize)]
struct Body {
    event: Value,
    timestamp: Value,
    data: Map<String, Value>,
}

/// The body of a call's event without the caller's number, summary, parameters and results: those fields become null. So does
/// the name of a function that the agent does not have: the model invented it and may have put words of the caller there.
pub fn without_personal_data(body: &str) -> String {
    blank(body, |field, is_invented| {
        !KEPT.contains(&field) || field == "functionName" && is_invented
    })
}

/// The body of a call's event without its summary.
pub fn without_summary(body: &str) -> String {
    blank(body, |field, _| field == SUMMARY)
}

/// Blanks the fields for which `goes` is true; its second argument is true if the agent has no function of the event's name. An
/// unreadable body is replaced by an empty one.
fn blank(body: &str, goes: impl Fn(&str, bool) -> bool) -> String {
    let Ok(mut body) = serde_json::from_str::<Body>(body) else {
        return r#"{"event":null,"timestamp":null,"data":{}}"#.to_owned();
    };
    let unknown = FaultCode::UnknownFunction.as_str();
    let result = body.data.get("result");
    let is_invented = result.is_some_and(|result| result["error"]["code"] == unknown);
    for (field, value) in &mut body.data {
        if goes(field, is_invented) {
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

    #[test]
    fn a_name_that_the_model_invented_is_erased() {
        let name_after = |result: Value| {
            let data = json!({"callId": "call_1", "functionName": "check_order", "parameters": {}, "result": result});
            let body = json!({"event": "function.called", "timestamp": "2026-01-15T03:30:00.000Z", "data": data});
            let erased: Value =
                serde_json::from_str(&without_personal_data(&body.to_string())).expect("JSON");
            erased["data"]["functionName"].clone()
        };
        let failed = |code: &str| json!({"error": {"code": code, "message": "m"}});
        assert_eq!(name_after(failed("unknown_function")), Value::Null);
        assert_eq!(name_after(failed("timeout")), "check_order");
        assert_eq!(name_after(json!({"minutes": 20})), "check_order");
    }
}
