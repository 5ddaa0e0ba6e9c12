//! The demo tenant's server: receives, verifies and prints webhooks, and answers the demo function.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use actix_web::{App, HttpRequest, HttpResponse, HttpServer, dev::Server, web};
use dikala_actors::webhooks::signature::Signer;
use dikala_entities::{Secret, foreign_json};
use serde_json::{Value, json};

use crate::cli::note::note;

/// Path of an endpoint that always fails, so that the demo shows failing deliveries.
pub const BROKEN: &str = "till";
/// One of this many answers of the demo function is slow.
const SLOW_EVERY: usize = 5;
const SLOW: Duration = Duration::from_secs(3);

/// State of the receiver.
#[derive(Clone, Debug)]
pub struct DemoReceiver {
    /// The secret that signs the demo's webhooks.
    pub webhook_secret: Secret,
}

impl DemoReceiver {
    /// Serves on an already bound socket.
    pub fn serve(self, socket: TcpListener) -> std::io::Result<Server> {
        let receiver = Arc::new(self);
        let asked = Arc::new(AtomicUsize::new(0));
        let server = HttpServer::new(move || {
            App::new()
                .app_data(web::Data::from(Arc::clone(&receiver)))
                .app_data(web::Data::from(Arc::clone(&asked)))
                .service(web::resource(format!("/{BROKEN}")).route(web::post().to(broken)))
                .service(web::resource("/hooks").route(web::post().to(hook)))
                .service(web::resource("/orders/check").route(web::post().to(check_order)))
        });
        Ok(server.workers(1).disable_signals().listen(socket)?.run())
    }
}

async fn hook(
    request: HttpRequest,
    body: web::Bytes,
    receiver: web::Data<DemoReceiver>,
) -> HttpResponse {
    let given = request
        .headers()
        .get("x-service-signature")
        .and_then(|value| value.to_str().ok());
    let expected = Signer::new(&receiver.webhook_secret).service_signature(&body);
    if given != Some(expected.as_str()) {
        note("a webhook with a wrong signature was refused");
        return HttpResponse::Unauthorized().finish();
    }
    if let Ok(event) = foreign_json::value(&body) {
        // Standard output is closed; the events are in the store anyway.
        let _ = crate::cli::print(&describe(&event));
    }
    HttpResponse::NoContent().finish()
}

/// An event in one line: time, kind, call and the main detail.
fn describe(event: &Value) -> String {
    let data = &event["data"];
    let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
    let detail = match event["event"].as_str().unwrap_or_default() {
        "call.started" => format!("to {}", text("did")),
        "call.ended" => format!(
            "{} after {} s of talk",
            text("hangupReason"),
            data["talkTimeSeconds"]
        ),
        "call.transcript" => text("transcriptSummary"),
        "function.called" => format!("{} → {}", text("functionName"), data["result"]),
        "credits.low" => format!(
            "{} minutes left, threshold {}",
            data["balanceMinutes"], data["threshold"]
        ),
        _ => String::new(),
    };
    let time = event["timestamp"]
        .as_str()
        .and_then(|at| at.get(11..19))
        .unwrap_or_default()
        .to_owned();
    let kind = event["event"].as_str().unwrap_or_default();
    format!("{time}  {kind:<15}  {:<31}  {detail}", text("callId"))
}

async fn broken() -> HttpResponse {
    HttpResponse::InternalServerError().body("The till is out of paper.")
}

async fn check_order(body: web::Bytes, asked: web::Data<AtomicUsize>) -> HttpResponse {
    if asked.fetch_add(1, Relaxed) % SLOW_EVERY == SLOW_EVERY - 1 {
        tokio::time::sleep(SLOW).await;
    }
    let body = foreign_json::value(&body).unwrap_or_default();
    let order = body["parameters"]["orderNumber"]
        .as_str()
        .unwrap_or_default();
    HttpResponse::Ok()
        .json(json!({"orderNumber": order, "status": "on its way", "arrivesInMinutes": 20}))
}
