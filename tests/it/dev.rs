//! `dikala dev`: one command starts a working service, and a restart continues it.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use dikala_testkit::within;

use crate::support::{
    prelude::*,
    server::{interrupt, wait_for_line},
    visitor::Visitor,
};
use crate::telephony::phone::TestPhone;

/// A running `dikala dev` and the values it printed for people.
struct Dev {
    child: Child,
    key: String,
    addresses: Vec<String>,
    /// The links of the first owner, and of the owner whose tenant is low on credit.
    links: [String; 2],
    /// A number and the address that reaches it.
    telephone: (String, SocketAddr),
}

impl Dev {
    fn command(data: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dikala"));
        command
            .args(["dev", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env_clear()
            .env("DIKALA_OPERATOR__LISTEN", "127.0.0.1:0")
            // Two instances that start at once would both find port 5060 free.
            .env("DIKALA_TELEPHONY__SIP__LISTEN", "udp://127.0.0.1:0")
            .current_dir(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        command
    }

    fn start(data: &Path) -> Self {
        let mut child = Self::command(data).spawn().unwrap();
        let mut printed = String::new();
        let (key, addresses, links, telephone) =
            wait_for_line(&mut child, Path::new("/dev/null"), move |line| {
                printed.push_str(line);
                printed.push('\n');
                let key =
                    words(&printed).find(|word| word.starts_with("dkl_") && word.len() == 40)?;
                let addresses: Vec<_> = words(&printed)
                    .filter_map(|word| word.split_once("http://")?.1.split('/').next())
                    .filter(|address| address.starts_with("127.0.0.1:"))
                    .map(|address| format!("http://{address}"))
                    .collect();
                // The commands to try are printed last.
                let mut links = words(&printed).filter(|word| word.starts_with("http"));
                let links = [links.next()?.to_owned(), links.next()?.to_owned()];
                let mut telephones = words(&printed).filter_map(|word| word.strip_prefix("sip:"));
                let (did, address) = telephones.next()?.split_once('@')?;
                let telephone = (did.to_owned(), address.parse().ok()?);
                (printed.matches("curl").count() >= 3)
                    .then(|| (key.to_owned(), addresses, links, telephone))
            });
        Self {
            child,
            key,
            addresses,
            links,
            telephone,
        }
    }

    /// The printed address that serves the API.
    async fn api(&self) -> Rest {
        for address in &self.addresses {
            let rest = Rest::new(address).with("x-api-key", &self.key);
            let get = awc::http::Method::GET;
            if rest
                .try_send(get, "/api/v1/agents", None)
                .await
                .is_ok_and(|a| a.status == 200)
            {
                return Rest::new(&format!("{address}/api/v1")).with("x-api-key", &self.key);
            }
        }
        panic!("no address of {:?} serves the API", self.addresses);
    }

    /// Sends Ctrl-C; returns the exit code.
    async fn stop(mut self) -> Option<i32> {
        interrupt(&self.child);
        let exited = async || self.child.try_wait().unwrap();
        within(Duration::from_secs(60), "dev to stop", exited)
            .await
            .code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || "\"'`,()".contains(c))
}

/// Signs in with a printed link.
async fn come_in(link: &str) -> Visitor {
    let (base, path) = link.split_once("/dashboard").unwrap();
    let visitor = Visitor::new(base);
    let page = visitor.open(link).await;
    let button = page.form(&format!("/dashboard{path}"));
    assert_eq!(visitor.submit(&button).await.path, "/dashboard/password");
    let home = visitor.open("/dashboard").await;
    assert_eq!((home.status, &*home.path), (200, "/dashboard"));
    visitor
}

async fn calls(api: &Rest) -> Vec<Value> {
    let page = api.get("/calls?limit=100").await.expect(200);
    page["calls"].as_array().unwrap().clone()
}

/// Agents without their versions: a receiver at another address makes a new version.
fn without_versions(agents: &Value) -> Vec<Value> {
    let mut agents = agents["agents"].as_array().unwrap().clone();
    for agent in &mut agents {
        agent.as_object_mut().unwrap().remove("agentVersion");
    }
    agents
}

/// The receiver has another address at each start.
async fn assert_calls_ask_where_the_function_is(api: &Rest, agents: &Value) {
    let agent = agents["agents"][0]["id"].as_str().unwrap();
    let functions = api.get(&format!("/agents/{agent}/functions")).await;
    let versions = api.get(&format!("/agents/{agent}/versions")).await;
    let newest = versions.expect(200)["versions"].as_array().unwrap().clone();
    assert_eq!(
        newest.last().unwrap()["functions"][0]["endpoint"],
        functions.expect(200)["functions"][0]["endpoint"]
    );
}

/// Interval between API requests, below the rate limit.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// One webhook receives everything, another nothing; one tenant is low on credit.
async fn assert_pages_have_something_to_show(dev: &Dev, api: &Rest) {
    let webhooks = api.get("/webhooks").await.expect(200)["webhooks"].clone();
    let mut fared = Vec::new();
    for webhook in webhooks.as_array().unwrap() {
        let of = format!("/webhooks/{}/stats", webhook["id"].as_str().unwrap());
        let outcomes = async || {
            tokio::time::sleep(ASK_EVERY).await;
            let total = api.get(&of).await.expect(200)["total"].clone();
            let (fine, bad) = (total["succeeded"].as_i64()?, total["failed"].as_i64()?);
            (fine + bad > 0).then_some((fine > 0, bad > 0))
        };
        fared.push(within(Duration::from_secs(60), "deliveries", outcomes).await);
    }
    fared.sort_unstable();
    assert_eq!(fared, [(false, true), (true, false)]);
    let low = come_in(&dev.links[1]).await;
    let credits = low.open("/dashboard/credits").await;
    credits.assert_shows("Toko Hemat");
    credits.assert_shows("+33");
}

#[actix_web::test]
async fn dev_works_at_once_and_is_the_same_the_second_time() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let api = dev.api().await;
    let visitor = come_in(&dev.links[0]).await;
    // The owner belongs to the tenant of the printed key.
    let members = visitor.open("/dashboard/settings/members").await;
    members.assert_shows("Owner");
    let keys = visitor.open("/dashboard/settings/keys").await;
    keys.assert_shows(&dev.key[..12]);
    let agents = api.get("/agents").await.expect(200);
    assert!(!agents["agents"].as_array().unwrap().is_empty());
    let numbers = api.get("/phone-numbers").await.expect(200);
    assert!(
        numbers["phoneNumbers"][0]["agentId"].is_string(),
        "{numbers}"
    );
    assert!(api.get("/webhooks").await.expect(200)["webhooks"][0]["url"].is_string());
    assert_calls_ask_where_the_function_is(&api, &agents).await;
    let first = within(
        Duration::from_secs(120),
        "a simulated call to end",
        async || {
            tokio::time::sleep(ASK_EVERY).await;
            calls(&api)
                .await
                .into_iter()
                .find(|call| !call["endedAt"].is_null())
        },
    )
    .await;
    assert_pages_have_something_to_show(&dev, &api).await;
    let key = dev.key.clone();
    assert_eq!(dev.stop().await, Some(0));

    let again = Dev::start(data.path());
    assert_eq!(again.key, key, "the key is kept");
    come_in(&again.links[0]).await;
    let (did, telephone) = &again.telephone;
    let phone = TestPhone::call(*telephone, did).await;
    phone.hears().await;
    phone.hang_up().await;
    let api = again.api().await;
    let id = first["id"].as_str().unwrap();
    assert_eq!(
        api.get(&format!("/calls/{id}")).await.expect(200),
        first,
        "the data are kept"
    );
    let kept = api.get("/agents").await.expect(200);
    assert_eq!(without_versions(&kept), without_versions(&agents));
    assert_calls_ask_where_the_function_is(&api, &kept).await;
    assert_eq!(again.stop().await, Some(0));
}

/// The functions of templates are answered by the service itself.
#[actix_web::test]
async fn templates_bring_functions_that_answer() {
    let data = tempfile::tempdir().unwrap();
    let dev = Dev::start(data.path());
    let visitor = come_in(&dev.links[0]).await;
    let new = "/dashboard/agents/new";
    for (language, template, function, field, ask) in [
        (
            "en",
            "courier",
            "track_parcel",
            "status",
            "The tracking number",
        ),
        (
            "id",
            "restaurant",
            "reserve_table",
            "reserved",
            "Berapa orang",
        ),
    ] {
        let browser = visitor.clone().with("accept-language", language);
        let page = browser.open(&format!("{new}?template={template}")).await;
        page.assert_shows(function);
        let made = browser.submit(&page.form(new)).await;
        made.assert_shows(function);
        let agent = made.path.split('?').next().unwrap().to_owned();

        let path = format!("{agent}/functions/{function}");
        let shown = browser.open(&path).await.form(&path);
        let endpoint = shown.value("endpoint").unwrap();
        let own = format!("/examples/functions/{function}?language={language}");
        assert!(endpoint.ends_with(&own), "{endpoint}");
        let test = format!("{path}/test");
        let page = browser.open(&test).await;
        page.assert_shows(ask);
        let form = page.form(&test);
        let arguments = form.clone().fields.into_iter();
        let arguments = arguments.filter(|(name, _)| name.starts_with("argument"));
        let form = arguments.fold(form, |form, (name, _)| form.set(&name, "4"));
        let answered = browser.submit(&form).await;
        answered.assert_shows(&format!("\"{field}\":"));
        answered.assert_shows("\"ok\"");
        browser
            .open("/dashboard/audit")
            .await
            .assert_shows(function);
    }
    assert_eq!(dev.stop().await, Some(0));
}

/// Ctrl-C right after the start works, even before the simulated bridge has connected.
#[actix_web::test]
async fn dev_stops_properly_from_the_first_moment_on() {
    let data = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        assert_eq!(Dev::start(data.path()).stop().await, Some(0));
    }
}

#[actix_web::test]
async fn dev_without_calls_promises_none() {
    let data = tempfile::tempdir().unwrap();
    let mut child = Dev::command(data.path()).arg("--no-calls").spawn().unwrap();
    let mut printed = String::new();
    let printed = wait_for_line(&mut child, Path::new("/dev/null"), move |line| {
        printed.push_str(line);
        line.contains("Events as").then(|| printed.clone())
    });
    interrupt(&child);
    assert!(!printed.contains("simulated bridge"), "{printed}");
    for told in ["/till, fails on purpose", "tenant     ten_", "functions  "] {
        assert!(printed.contains(told), "{told}: {printed}");
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
