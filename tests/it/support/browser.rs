//! Debian's Chromium without a window of its own, driven by chromedriver like a person who reads pages and fills in forms.
//!
//! The protocol is W3C WebDriver (<https://www.w3.org/TR/webdriver2/>) with chromedriver's extensions. The dozen
//! commands needed here work with any HTTP client; the crates for it would add a second HTTP stack.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use dikala_testkit::{eventually, folder};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::rest::Rest;

/// If set to 1, a missing browser fails the tests instead of skipping them.
const REQUIRED: &str = "DIKALA_REQUIRE_BROWSER";
/// The protocol's key of an element's reference.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// The same engine as `chromium`, which takes five times as much CPU time to start and to open pages.
const BROWSER: &str = "chromium-headless-shell";
/// Starts of a driver until one has a port.
const STARTS_MAX: usize = 5;
/// Keep the browser from contacting its vendor's servers at every start.
const ARGUMENTS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    // A microphone that beeps each second, and may be used.
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
];

/// A browser with one tab and a fresh profile. Closed when dropped.
#[derive(Debug)]
pub struct Browser {
    session: Session,
    _driver: Driver,
    _profile: TempDir,
}

#[derive(Debug)]
struct Session {
    base: String,
}

/// A process group that is killed with this value.
#[derive(Debug)]
struct Driver(Child);

impl Drop for Driver {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// An element of the current page.
#[derive(Clone, Debug)]
pub struct Element(String);

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

impl Browser {
    /// Opens a browser with this preferred language. Returns `None` with a printed note if no browser is installed.
    pub async fn open(language: &str) -> Option<Self> {
        Self::open_with(language, None).await
    }

    /// As [`Self::open`]; the microphone hears this WAV file once.
    pub async fn open_with(language: &str, heard: Option<&Path>) -> Option<Self> {
        let programs = program(BROWSER).zip(program("chromedriver"));
        let Some((chromium, chromedriver)) = programs else {
            let missing =
                "a browser is not installed (Debian: chromium-headless-shell, chromium-driver)";
            assert_ne!(std::env::var(REQUIRED).as_deref(), Ok("1"), "{missing}");
            eprintln!("skipped: {missing}");
            return None;
        };
        let profile = folder();
        let (driver, port) = start(&chromedriver);
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", profile.path().display()));
        arguments.push(format!("--accept-lang={language}"));
        let heard = heard.map(|file| {
            format!(
                "--use-file-for-fake-audio-capture={}%noloop",
                file.display()
            )
        });
        arguments.extend(heard);
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome-headless-shell",
            "goog:chromeOptions": {"binary": chromium, "args": arguments,
                "prefs": {"intl": {"accept_languages": language}}},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let base = format!("http://127.0.0.1:{port}/session");
        let made = Rest::new(&base).post("", wanted).await;
        let id = made.body["value"]["sessionId"].as_str();
        let id = id.unwrap_or_else(|| panic!("no browser: {}", made.text));
        let browser = Self {
            session: Session {
                base: format!("{base}/{id}"),
            },
            _driver: driver,
            _profile: profile,
        };
        browser.look(1280, "light").await;
        Some(browser)
    }

    async fn ask(&self, path: &str, body: Value) -> Result<Value, Value> {
        self.session.ask(path, body).await
    }

    /// Opens an address.
    pub async fn go(&self, url: &str) {
        self.ask("/url", json!({"url": url})).await.unwrap();
    }

    /// The current address.
    pub async fn url(&self) -> String {
        self.session.tell("/url").await.as_str().unwrap().to_owned()
    }

    /// All elements that match an XPath.
    pub async fn all(&self, xpath: &str) -> Vec<Element> {
        let found = self.ask("/elements", json!({"using": "xpath", "value": xpath}));
        let found = found.await.unwrap();
        let ids = found.as_array().unwrap().iter();
        ids.map(|it| Element(it[ELEMENT].as_str().unwrap().to_owned()))
            .collect()
    }

    /// Waits for an element that matches an XPath.
    pub async fn one(&self, xpath: &str) -> Element {
        eventually(xpath, async || self.all(xpath).await.into_iter().next()).await
    }

    /// The visible text of the page.
    pub async fn text(&self) -> String {
        eventually("the text of a page", async || {
            let body = self.all("//body").await.into_iter().next()?;
            let path = format!("/element/{}/text", body.0);
            let text = if_still_there(self.session.get(&path).await)?;
            Some(text.as_str().unwrap_or_default().to_owned())
        })
        .await
    }

    /// Waits until this text is visible.
    pub async fn see(&self, words: &str) {
        eventually(&format!("the words {words:?}"), async || {
            // A page that is being replaced has no body.
            let text = self.all("//body").await.into_iter().next();
            let text = match text {
                Some(body) => self.session.get(&format!("/element/{}/text", body.0)).await,
                None => return None,
            };
            text.ok()?.as_str()?.contains(words).then_some(())
        })
        .await;
    }

    /// The field with this label.
    pub async fn field(&self, label: &str) -> Element {
        let labelled = format!(
            "//*[@id=//label[starts-with(normalize-space(.), {label:?})]/@for] | //label[normalize-space(.)={label:?}]//input"
        );
        self.one(&labelled).await
    }

    /// Replaces the text of the field with this label.
    pub async fn fill(&self, label: &str, text: &str) {
        let Element(field) = self.field(label).await;
        self.ask(&format!("/element/{field}/clear"), json!({}))
            .await
            .unwrap();
        self.ask(&format!("/element/{field}/value"), json!({"text": text}))
            .await
            .unwrap();
    }

    /// The value of the field with this label.
    pub async fn value(&self, label: &str) -> String {
        let Element(field) = self.field(label).await;
        let path = format!("/element/{field}/property/value");
        self.session
            .tell(&path)
            .await
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Selects an option of the list with this label.
    pub async fn choose(&self, label: &str, option: &str) {
        let Element(list) = self.field(label).await;
        let path = format!("/element/{list}/element");
        let xpath = format!(".//option[normalize-space(.)={option:?}]");
        let found = self.ask(&path, json!({"using": "xpath", "value": xpath}));
        let found = found.await.unwrap();
        let option = Element(found[ELEMENT].as_str().unwrap().to_owned());
        self.click(&option).await;
    }

    /// Waits for the error of the field with this label, which the field must reference; returns its text.
    pub async fn told_beside(&self, label: &str) -> String {
        let id = format!("//label[starts-with(normalize-space(.), {label:?})]/@for");
        let points =
            format!("//*[@id={id} and contains(@aria-describedby, concat(@id, '-error'))]");
        let error = format!("//*[@id=concat({id}, '-error')][{points}]");
        eventually(&format!("an error beside {label}"), async || {
            let error = self.all(&error).await.into_iter().next()?;
            let path = format!("/element/{}/text", error.0);
            // The element is gone if the page is just being replaced.
            let text = self.session.get(&path).await.ok()?;
            text.as_str().map(str::to_owned)
        })
        .await
    }

    /// Presses the first visible button or link with this name.
    pub async fn press(&self, name: &str) {
        let named = format!(
            "//button[normalize-space(.)={name:?}] | //a[normalize-space(.)={name:?}] | //summary[normalize-space(.)={name:?}]"
        );
        eventually(&named, async || {
            for element in self.all(&named).await {
                if self.is_shown(&element).await {
                    self.scroll_to(&element).await;
                    let path = format!("/element/{}/click", element.0);
                    return if_still_there(self.ask(&path, json!({})).await).map(drop);
                }
            }
            None
        })
        .await;
    }

    /// True if an element is visible; false if its page was left meanwhile.
    pub async fn is_shown(&self, element: &Element) -> bool {
        let path = format!("/element/{}/displayed", element.0);
        self.session.get(&path).await == Ok(Value::Bool(true))
    }

    /// Scrolls as a person does, so that the bar at the bottom of a narrow window does not cover the element.
    async fn scroll_to(&self, element: &Element) {
        let script = "arguments[0].scrollIntoView({block: 'center'})";
        let scroll = json!({"script": script, "args": [{ELEMENT: element.0}]});
        if_still_there(self.ask("/execute/sync", scroll).await);
    }

    pub async fn click(&self, element: &Element) {
        self.scroll_to(element).await;
        let path = format!("/element/{}/click", element.0);
        self.ask(&path, json!({})).await.unwrap();
    }

    /// Looks into the first frame of the page; `false` looks at the page again.
    pub async fn inside_frame(&self, is: bool) {
        if !is {
            self.ask("/frame", json!({"id": null})).await.unwrap();
            return;
        }
        let frame = self.one("//iframe").await;
        let id = json!({"id": {ELEMENT: frame.0}});
        self.ask("/frame", id).await.unwrap();
    }

    /// Runs a function body in the page; returns its result.
    pub async fn run(&self, script: &str) -> Value {
        self.run_with(script, json!([])).await
    }

    /// As [`Self::run`], with arguments.
    pub async fn run_with(&self, script: &str, arguments: Value) -> Value {
        let ran = self.ask(
            "/execute/sync",
            json!({"script": script, "args": arguments}),
        );
        ran.await.unwrap()
    }

    /// Runs a function body that passes its result to its last argument, a callback.
    pub async fn run_until_done(&self, script: &str) -> Value {
        let ran = self.ask("/execute/async", json!({"script": script, "args": []}));
        ran.await.unwrap()
    }

    /// Sets the window's width and the colour scheme, and disables animations.
    pub async fn look(&self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.tool("Emulation.setDeviceMetricsOverride", size).await;
        let media = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.tool("Emulation.setEmulatedMedia", media).await;
    }

    /// Enables or disables scripts, from the next page on.
    pub async fn scripts(&self, on: bool) {
        self.tool(
            "Emulation.setScriptExecutionDisabled",
            json!({"value": !on}),
        )
        .await;
    }

    /// A PNG of the page's upper left part; `scale` is the number of image pixels per CSS pixel.
    pub async fn picture(&self, (width, height): (u32, u32), scale: u32) -> Vec<u8> {
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": scale});
        let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.tool("Page.captureScreenshot", wanted).await;
        STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()
    }

    async fn tool(&self, command: &str, parameters: Value) -> Value {
        let asked = json!({"cmd": command, "params": parameters});
        self.ask("/goog/cdp/execute", asked).await.unwrap()
    }

    /// The browser's log entries since the last call.
    pub async fn complaints(&self) -> Vec<String> {
        let log = self.ask("/se/log", json!({"type": "browser"})).await;
        let entries = log.unwrap();
        let entries = entries.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Session {
    async fn ask(&self, path: &str, body: Value) -> Result<Value, Value> {
        Self::answer(Rest::new(&self.base).post(path, body).await.body)
    }

    async fn get(&self, path: &str) -> Result<Value, Value> {
        Self::answer(Rest::new(&self.base).get(path).await.body)
    }

    async fn tell(&self, path: &str) -> Value {
        self.get(path).await.unwrap()
    }

    fn answer(mut body: Value) -> Result<Value, Value> {
        let value = body["value"].take();
        match value.get("error") {
            Some(_) => Err(value),
            None => Ok(value),
        }
    }
}

/// The answer about an element; `None` if its page was replaced meanwhile.
fn if_still_there(answer: Result<Value, Value>) -> Option<Value> {
    match answer {
        Err(error) if error["error"] == "stale element reference" => None,
        answer => Some(answer.unwrap()),
    }
}

/// Starts a driver on a port of its choice. It takes a port that is free for IPv6, and ends if another program has it for IPv4: then
/// the next one is started.
fn start(chromedriver: &Path) -> (Driver, u16) {
    let mut started = (0..STARTS_MAX).filter_map(|_| start_once(chromedriver));
    started.next().expect("the driver says its port")
}

fn start_once(chromedriver: &Path) -> Option<(Driver, u16)> {
    use std::os::unix::process::CommandExt;
    let child = Command::new(chromedriver)
        .arg("--port=0")
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut driver = Driver(child.unwrap());
    let mut lines = BufReader::new(driver.0.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.unwrap();
        let port = line.split_once("successfully on port ")?.1;
        port.trim_end_matches('.').parse().ok()
    })?;
    // Further output must be read, or the driver would block.
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, port))
}
