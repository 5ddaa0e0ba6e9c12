//! Example functions: endpoints that the service answers itself, so that an agent from a template can be tried before
//! its owner has a server. Public and stateless: an answer is made from the arguments alone.

mod answers;
pub mod catalogue;

use actix_web::{
    Error, HttpMessage, HttpRequest, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::{Next, from_fn},
    web::{self, Path, Query, ServiceConfig},
};
use dikala_entities::foreign_json;
use serde::Deserialize;
use serde_json::{Map, Value};

use self::{answers::ExampleArguments, catalogue::find};
use crate::{
    http::{
        body::RawBody,
        error::{ApiError, Missing},
        middleware::{count_visit, receive},
    },
    pages::lang::Lang,
};

/// The path below which all of them are.
pub const PATH: &str = "/examples/functions";
/// The largest request, in bytes.
const BODY_BYTES_MAX: usize = 16_384;

/// The query string of an example's endpoint.
#[derive(Debug, Deserialize)]
struct ExampleQuery {
    /// The language of the answer; English if it is missing or unknown.
    language: Option<String>,
}

/// Mounts the endpoints.
pub fn configure(cfg: &mut ServiceConfig) {
    let resource = web::resource(format!("{PATH}/{{name}}"))
        .wrap(from_fn(receive_request))
        .wrap(from_fn(count_visit));
    cfg.service(resource.route(web::post().to(answer)));
}

async fn receive_request(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match receive(&mut request, BODY_BYTES_MAX).await {
        Ok(bytes) => {
            request.extensions_mut().insert(RawBody(bytes));
            Ok(next.call(request).await?.map_into_boxed_body())
        }
        Err(error) => Ok(request.error_response(error)),
    }
}

/// `POST /examples/functions/{name}`
async fn answer(
    request: HttpRequest,
    name: Path<String>,
    query: Query<ExampleQuery>,
) -> Result<HttpResponse, ApiError> {
    let function = find(&name).ok_or(ApiError::NotFound(Missing::Route))?;
    let lang = query.language.as_deref().and_then(Lang::parse);
    let body = request.extensions().get::<RawBody>().cloned();
    let body = foreign_json::object(&body.unwrap_or_default().0);
    let mut body = body.map_err(|error| ApiError::InvalidJson(error.to_string()))?;
    let parameters = match body.remove("parameters") {
        Some(Value::Object(parameters)) => parameters,
        _ => Map::new(),
    };
    let arguments = ExampleArguments::new(parameters, lang.unwrap_or(Lang::En));
    Ok(HttpResponse::Ok().json((function.answer)(&arguments)))
}
