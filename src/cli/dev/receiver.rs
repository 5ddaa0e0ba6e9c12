//! The demo tenant's own server: takes webhooks, checks their signatures and shows them; answers the demo function.

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
use dikala_entities::Secret;
use serde_json::{Value, json};

/// Where a server is that never takes a webhook: what that looks like belongs to the demo.
pub const BROKEN: &str = "till";
/// Of so many answers of the demo function one is slow.
const SLOW_EVERY: usize = 5;
const SLOW: Duration = Duration::from_secs(3);

/// What the receiver knows.
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Signs the webhooks of the demo.
    pub webhook_secret: Secret,
}

impl Receiver {
    /// Serves on a socket that is bound already.
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
    receiver: web::Data<Receiver>,
) -> HttpResponse {
    let given = request
        .headers()
        .get("x-service-signature")
        .and_then(|value| value.to_str().ok());
    let expected = Signer::new(&receiver.webhook_secret).service_signature(&body);
    if given != Some(expected.as_str()) {
        eprintln!("a webhook with a wrong signature was refused");
        return HttpResponse::Unauthorized().finish();
    }
    if let Ok(event) = serde_json::from_slice::<Value>(&body) {
        // Nobody reads it any more: the events are in the store all the same.
        let _ = crate::cli::print(&describe(&event));
    }
    HttpResponse::NoContent().finish()
}

/// One line for a person: when, what, which call, and what matters of it.
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

async fn check_order(body: web::Json<Value>, asked: web::Data<AtomicUsize>) -> HttpResponse {
    if asked.fetch_add(1, Relaxed) % SLOW_EVERY == SLOW_EVERY - 1 {
        tokio::time::sleep(SLOW).await;
    }
    let order = body["parameters"]["orderNumber"]
        .as_str()
        .unwrap_or_default();
    HttpResponse::Ok()
        .json(json!({"orderNumber": order, "status": "on its way", "arrivesInMinutes": 20}))
}
