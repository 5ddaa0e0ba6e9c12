//! Meta's Graph API, as far as it has the calling settings of one business number. Unknown fields are errors.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use crate::{ReceivedRequest, ServerAnswer, TenantServer};

/// The number, as Meta writes it.
const NUMBER: &str = "+62 21-5000-1000";
/// The app of the token.
pub const APP: &str = "1020304050";
/// The password that Meta made for the number.
pub const SIP_PASSWORD: &str = "sip-password-of-meta";

/// The server with the settings.
#[derive(Debug)]
pub struct FakeGraph {
    server: TenantServer,
    calling: Arc<Mutex<Value>>,
}

impl FakeGraph {
    /// Serves the settings of this number to the bearer of this token. Calling is on, SIP is off.
    pub fn start(phone_number_id: &str, token: &str) -> Self {
        let calling = Arc::new(Mutex::new(json!({
            "status": "ENABLED",
            "srtp_key_exchange_protocol": "DTLS",
            "sip": {"status": "DISABLED", "servers": []},
        })));
        let (state, id, token) = (
            calling.clone(),
            phone_number_id.to_owned(),
            format!("Bearer {token}"),
        );
        let server = TenantServer::scripted(move |request| {
            let mut calling = state.lock().unwrap();
            match answer(request, &id, &token, &mut calling) {
                Ok(body) => ServerAnswer::Json(body),
                Err((status, code, words)) => refusal(status, code, &words),
            }
        });
        Self { server, calling }
    }

    pub fn url(&self) -> String {
        self.server.url("")
    }

    /// The settings below `calling`.
    pub fn calling(&self) -> Value {
        self.calling.lock().unwrap().clone()
    }

    /// Changes the settings behind the client's back.
    pub fn set_calling(&self, calling: Value) {
        *self.calling.lock().unwrap() = calling;
    }

    /// The bodies of all changes so far.
    pub fn changes(&self) -> Vec<Value> {
        let all = self.server.all();
        let changes = all.iter().filter(|request| request.method == "POST");
        changes.map(ReceivedRequest::json).collect()
    }

    /// All requests so far.
    pub fn requests(&self) -> usize {
        self.server.total()
    }
}

/// HTTP status, code and message of an error.
type Fault = (u16, u32, String);

fn fault(code: u32, words: &str) -> Fault {
    (400, code, words.to_owned())
}

fn refusal(status: u16, code: u32, words: &str) -> ServerAnswer {
    let body = json!({"error": {
        "message": words, "type": "OAuthException", "code": code, "fbtrace_id": "A1b2",
    }});
    let kind = "application/json".to_owned();
    ServerAnswer::Full(status, "content-type", kind, body.to_string().into_bytes())
}

fn answer(
    request: &ReceivedRequest,
    id: &str,
    token: &str,
    calling: &mut Value,
) -> Result<Value, Fault> {
    if request.headers.get("authorization").map(String::as_str) != Some(token) {
        let words = "Error validating access token: Session has expired".to_owned();
        return Err((401, 190, words));
    }
    let mut path = request.path.trim_start_matches('/').split('/');
    let version = path.next().unwrap_or_default();
    let is_version = version.strip_prefix('v').is_some_and(|number| {
        let mut parts = number.split('.');
        parts.clone().count() == 2 && parts.all(|part| part.parse::<u8>().is_ok())
    });
    let named = path.next().unwrap_or_default();
    let part = path.next();
    if !is_version || !matches!(part, None | Some("settings")) || path.next().is_some() {
        return Err((
            404,
            2_500,
            format!("Unknown path components: {}", request.path),
        ));
    }
    match named {
        "403" => return Err((403, 200, "Requires whatsapp_business_management".to_owned())),
        _ if named != id => {
            let words = format!("Object with ID '{named}' does not exist");
            return Err(fault(100, &format!("Unsupported get request. {words}")));
        }
        _ => {}
    }
    let query = request.query.as_deref();
    if part.is_none() {
        return match (request.method.as_str(), query) {
            ("GET", Some("fields=display_phone_number")) => {
                Ok(json!({"display_phone_number": NUMBER, "id": id}))
            }
            (method, query) => Err(fault(
                100,
                &format!("Unsupported request {method} {query:?}"),
            )),
        };
    }
    match (request.method.as_str(), query) {
        ("GET", Some("include_sip_credentials=true")) => Ok(shown(calling, true)),
        ("GET", None) => Ok(shown(calling, false)),
        ("POST", None) => {
            let body: Value = serde_json::from_slice(&request.body)
                .map_err(|_| fault(100, "The body is not valid JSON"))?;
            change(&body, calling)?;
            Ok(json!({"success": true}))
        }
        (method, query) => Err(fault(
            100,
            &format!("Unsupported request {method} {query:?}"),
        )),
    }
}

/// The settings, with the password of each server if it is asked for.
fn shown(calling: &Value, with_password: bool) -> Value {
    let mut calling = calling.clone();
    if let Some(servers) = calling["sip"]["servers"].as_array_mut() {
        for server in servers.iter_mut().filter(|_| with_password) {
            server["sip_user_password"] = SIP_PASSWORD.into();
        }
    }
    json!({"calling": calling})
}

fn object<'a>(value: &'a Value, names: &[&str]) -> Result<&'a Map<String, Value>, Fault> {
    let object = value.as_object();
    let object = object.ok_or_else(|| fault(100, "Invalid parameter: an object is needed"))?;
    match object.keys().find(|key| !names.contains(&key.as_str())) {
        Some(key) => Err(fault(
            100,
            &format!("Invalid parameter: unknown field {key}"),
        )),
        None => Ok(object),
    }
}

/// Applies a change, which has to be of one group of features.
fn change(body: &Value, calling: &mut Value) -> Result<(), Fault> {
    let groups = object(
        &object(body, &["calling"])?["calling"],
        &["sip", "srtp_key_exchange_protocol"],
    )?;
    if groups.len() != 1 {
        return Err(fault(100, "Change one group of features at a time"));
    }
    if let Some(sip) = groups.get("sip") {
        let sip = object(sip, &["status", "servers"])?;
        if let Some(servers) = sip.get("servers") {
            replace_server(servers, &mut calling["sip"]["servers"])?;
        }
        let status = sip.get("status").and_then(Value::as_str);
        let is_empty = calling["sip"]["servers"] == json!([]);
        if status == Some("ENABLED") && is_empty {
            return Err(fault(100, "Invalid parameter: a server is needed"));
        }
        if let Some(status) = status {
            calling["sip"]["status"] = status.into();
        }
    }
    if let Some(protocol) = groups.get("srtp_key_exchange_protocol") {
        let is_sip = calling["sip"]["status"] == "ENABLED";
        match protocol.as_str() {
            Some("DTLS") => {}
            Some("SDES") if is_sip => {}
            Some("SDES") => return Err(fault(100, "SDES is allowed with SIP only")),
            _ => return Err(fault(100, "Invalid parameter: srtp_key_exchange_protocol")),
        }
        calling["srtp_key_exchange_protocol"] = protocol.clone();
    }
    Ok(())
}

/// Replaces the server of the token's app. Those of other apps stay.
fn replace_server(asked: &Value, servers: &mut Value) -> Result<(), Fault> {
    let asked = asked.as_array().map_or(&[][..], Vec::as_slice);
    let [server] = asked else {
        return Err(fault(100, "Invalid parameter: one server is needed"));
    };
    let mut server = object(server, &["hostname", "port"])?.clone();
    let hostname = server.get("hostname").and_then(Value::as_str);
    let is_name = hostname
        .is_some_and(|name| name.contains('.') && name.parse::<std::net::IpAddr>().is_err());
    if !is_name || !server.get("port").is_some_and(Value::is_u64) {
        return Err(fault(100, "Invalid parameter: hostname or port"));
    }
    if hostname == Some("unwelcome.example.com") {
        return Err(fault(131_000, "SIP is not available for this phone number"));
    }
    server.insert("app_id".to_owned(), APP.into());
    let servers = servers.as_array_mut();
    let servers = servers.ok_or_else(|| fault(100, "Invalid settings"))?;
    servers.retain(|other| other["app_id"] != APP);
    servers.push(server.into());
    Ok(())
}
