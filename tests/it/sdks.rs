//! The client packages as installed by users, against the real binary: the examples of their READMEs work.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use crate::support::{prelude::*, world::HOOK};

/// The folder in which `.ci/sdks` has installed only the packages.
const FOLDER: &str = "DIKALA_SDKS";
/// If set to 1, missing packages fail the test instead of skipping it.
const REQUIRED: &str = "DIKALA_REQUIRE_SDKS";

#[derive(Clone, Copy, Debug)]
enum Language {
    TypeScript,
    Python,
}
use Language::*;

/// The examples of a README, in their order there.
#[derive(Clone, Copy)]
enum Example {
    Api,
    Webhooks,
}

fn folder() -> Option<PathBuf> {
    let folder = env::var_os(FOLDER).map(PathBuf::from);
    if folder.is_none() {
        let note = format!("no {FOLDER}, see .ci/sdks; {REQUIRED}=1 makes this a failure");
        assert!(env::var(REQUIRED).as_deref() != Ok("1"), "{note}");
        println!("skipped: {note}");
    }
    folder
}

impl Language {
    /// An unchanged example, in the folder of its package.
    fn program(self, folder: &Path, example: Example) -> Command {
        let (readme, fence) = match self {
            TypeScript => ("sdks/typescript/README.md", "```js\n"),
            Python => ("sdks/python/README.md", "```python\n"),
        };
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join(readme);
        let readme = fs::read_to_string(readme).unwrap();
        let code = readme.split(fence).nth(1 + example as usize).unwrap();
        let code = code.split("```").next().unwrap();
        let (interpreter, file) = match self {
            TypeScript => (
                "node".into(),
                format!("node/example-{}.mjs", example as usize),
            ),
            Python => (
                folder.join("venv/bin/python"),
                format!("example-{}.py", example as usize),
            ),
        };
        let file = folder.join(file);
        fs::write(&file, code).unwrap();
        let mut program = Command::new(interpreter);
        program.arg(file);
        program
    }
}

/// A background program and its output; killed when dropped.
struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn start(mut program: Command) -> Self {
        let mut child = program.stdout(Stdio::piped()).spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn({
            let said = Arc::clone(&said);
            move || keep(lines, &said)
        });
        Self { child, said }
    }

    /// Waits for a line that contains this text.
    async fn says(&self, part: &str) -> String {
        eventually(&format!("a line with {part:?}"), async || {
            let said = self.said.lock().unwrap();
            said.iter().find(|line| line.contains(part)).cloned()
        })
        .await
    }
}

fn keep(lines: std::io::Lines<BufReader<ChildStdout>>, said: &Mutex<Vec<String>>) {
    for line in lines.map_while(Result::ok) {
        said.lock().unwrap().push(line);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A call with this talk time.
async fn talked(world: &TestWorld, bridge: &TestBridge, seconds: i64) -> String {
    let answered = Moment::ago(seconds);
    let call = bridge.talk_since(&world.tenant.did, answered).await;
    bridge.hang_up_at(&call, answered.plus(seconds)).await;
    call
}

#[rstest]
#[actix_web::test]
async fn the_first_example_of_a_package_works(#[values(TypeScript, Python)] language: Language) {
    let Some(folder) = folder() else { return };
    let world = world!(Sqlite);
    let bridge = world.tenant.bridge(Socket).await;
    talked(&world, &bridge, 7).await;

    let hook = world.receiver.url("/sdk");
    let output = language
        .program(&folder, Example::Api)
        .env("DIKALA_URL", &world.server.http)
        .env("DIKALA_API_KEY", &world.tenant.key)
        .env("WEBHOOK_URL", &hook)
        .env("WEBHOOK_SECRET", SECRET)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert_eq!(lines[0], "made Ayu, version 1");
    assert_eq!(lines[1], format!("events go to {hook}"));
    assert!(lines[2].ends_with(" talked for 7 s"), "{said}");

    let agents = world.tenant.api.get("/agents").await.expect(200);
    assert_eq!(agents["agents"][1]["name"], "Ayu");
    let call = talked(&world, &bridge, 1).await;
    let ended = world
        .receiver
        .wait_for_event("/sdk", SECRET, "call.ended", &call);
    assert_eq!(ended.await.data["talkTimeSeconds"], 1);
}

#[rstest]
#[actix_web::test]
async fn the_receiver_of_a_package_takes_what_is_sent_and_nothing_else(
    #[values(TypeScript, Python)] language: Language,
) {
    let Some(folder) = folder() else { return };
    let world = world!(Sqlite);
    let tenant = &world.tenant;
    let mut program = language.program(&folder, Example::Webhooks);
    program.env("PORT", "0").env("WEBHOOK_SECRET", SECRET);
    let receiver = Running::start(program);
    let port = receiver.says("listening on ").await;
    let url = format!("http://127.0.0.1:{}/", port.rsplit(' ').next().unwrap());
    let webhook = tenant
        .subscribe(&url, &["call.started", "call.ended"], SECRET)
        .await;

    let bridge = tenant.bridge(Socket).await;
    let call = talked(&world, &bridge, 7).await;
    receiver.says(": over after 7 s, normal").await;
    receiver.says(" calls").await;

    // A replay of the same delivery is accepted unchanged, and refused if a word is changed.
    let genuine = delivery_of(&world, &call).await;
    let changed = genuine.text().replace("normal", "max_duration");
    assert_eq!(replay(&url, &genuine, &genuine.text()).await, 204);
    assert_eq!(replay(&url, &genuine, &changed).await, 400);
    receiver.says("refused: ").await;

    // Receivers that still use the old secret work for another day.
    let rotate = format!("/webhooks/{webhook}/rotate-secret");
    let new = json!({"secret": "another-secret-of-theirs"});
    tenant.api.post(&rotate, new).await.expect(200);
    talked(&world, &bridge, 8).await;
    receiver.says(": over after 8 s, normal").await;
}

async fn delivery_of(world: &TestWorld, call: &str) -> ReceivedRequest {
    world.event("call.ended", call).await;
    let came = world.receiver.received(HOOK);
    let is_it = |delivery: &ReceivedRequest| {
        let text = delivery.text();
        text.contains("call.ended") && text.contains(call)
    };
    came.into_iter().find(is_it).unwrap()
}

/// The status for a body with a delivery's headers.
async fn replay(url: &str, delivery: &ReceivedRequest, body: &str) -> u16 {
    let mut request = awc::Client::default().post(url);
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        request = request.insert_header((name, delivery.header(name)));
    }
    let body = body.to_owned();
    request.send_body(body).await.unwrap().status().as_u16()
}
