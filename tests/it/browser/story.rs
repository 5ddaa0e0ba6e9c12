//! A shop owner's work in the dashboard, from her invitation to inviting a colleague: in English on a wide screen,
//! and in Indonesian on a small telephone, with and without scripts.

use super::*;
use crate::support::tenant::fresh_did;

const PASSWORD: &str = "kopi susu gula aren";
const CALLER: &str = "+6281234567890";
const PROMPT: &str = "Kamu menjawab telepon Toko Rina.\nRamah dan singkat.";

/// The dashboard's messages in both languages.
const TEXTS: [(&str, &str); 2] = [
    ("en", include_str!("../../../src/pages/locales/en.ftl")),
    ("id", include_str!("../../../src/pages/locales/id.ftl")),
];

/// A way of reading the pages.
#[derive(Clone, Copy)]
struct ReadingMode {
    language: &'static str,
    width: u32,
    scripts: bool,
}

/// A person in front of a browser.
struct Reader<'a> {
    browser: Browser,
    world: &'a TestWorld,
    way: ReadingMode,
}

#[rstest]
#[case::on_a_wide_screen("en", 1280, true)]
#[case::in_indonesian_on_a_small_telephone("id", 320, true)]
#[case::and_there_without_scripts("id", 320, false)]
#[actix_web::test]
async fn an_owner_does_the_whole_job(
    #[case] language: &'static str,
    #[case] width: u32,
    #[case] scripts: bool,
) {
    let way = ReadingMode {
        language,
        width,
        scripts,
    };
    let world = world!(Sqlite);
    let Some(owner) = Reader::open(&world, way).await else {
        return;
    };
    owner.comes_by_her_link_and_sets_a_password().await;
    owner.makes_a_key_uses_it_and_takes_it_back().await;
    let did = owner.makes_an_agent_that_answers_a_number().await;
    owner.adds_a_function_to_it().await;
    owner.follows_a_call_to_its_end(&did).await;
    owner.reads_how_the_week_went().await;
    owner.sends_again_what_her_server_did_not_take().await;
    let link = owner.invites_a_colleague().await;
    let Some(colleague) = Reader::open(&world, way).await else {
        return;
    };
    colleague.comes_by_the_invitation(&link).await;
    owner.sees_nothing_wrong().await;
    colleague.sees_nothing_wrong().await;
}

impl<'a> Reader<'a> {
    async fn open(world: &'a TestWorld, way: ReadingMode) -> Option<Self> {
        let browser = Browser::open(way.language).await?;
        browser.look(way.width, "light").await;
        browser.scripts(way.scripts).await;
        Some(Self {
            browser,
            world,
            way,
        })
    }

    /// The text of a message.
    fn words(&self, name: &str) -> String {
        self.words_with(name, &[])
    }

    fn words_with(&self, name: &str, values: &[(&str, &str)]) -> String {
        let (_, texts) = TEXTS
            .iter()
            .find(|(it, _)| *it == self.way.language)
            .unwrap();
        let begins = format!("{name} = ");
        let text = texts.lines().find_map(|line| line.strip_prefix(&begins));
        let text = text.unwrap_or_else(|| panic!("no text {name}")).to_owned();
        values.iter().fold(text, |text, (name, value)| {
            text.replace(&format!("{{ ${name} }}"), value)
        })
    }

    /// Presses a button or follows a link in the page.
    async fn press(&self, name: &str) {
        self.browser.press(&self.words(name)).await;
    }

    async fn fill(&self, label: &str, text: &str) {
        self.browser.fill(&self.words(label), text).await;
    }

    /// Waits for the page with this title.
    async fn arrive(&self, title: &str) {
        let title = format!("//h1[normalize-space(.)={:?}]", self.words(title));
        self.browser.one(&title).await;
    }

    /// Waits for a text on the page, which must fit the window.
    async fn see(&self, name: &str) {
        self.browser.see(&self.words(name)).await;
        let beyond = "return document.documentElement.scrollWidth - innerWidth";
        let beyond = self.browser.run(beyond).await;
        assert!(beyond.as_i64() <= Some(0), "{name}: {beyond} px too wide");
    }

    /// Waits for a text that appears by itself, or, without scripts, after a reload.
    async fn see_in_time(&self, words: &str) {
        if self.way.scripts {
            return self.browser.see(words).await;
        }
        let url = self.browser.url().await;
        eventually(words, async || {
            self.browser.go(&url).await;
            self.browser.text().await.contains(words).then_some(())
        })
        .await;
    }

    /// Opens a page through the navigation, which is closed in a narrow window.
    async fn go_to(&self, page: &str) {
        let menu = self.words("page-more");
        let menu = format!("//nav/button[normalize-space(.)={menu:?}]");
        for button in self.browser.all(&menu).await {
            if self.browser.is_shown(&button).await {
                self.browser.click(&button).await;
            }
        }
        let link = format!("//nav//a[normalize-space(.)={:?}]", self.words(page));
        let link = self.browser.one(&link).await;
        self.browser.click(&link).await;
        self.arrive(page).await;
    }

    async fn sees_nothing_wrong(&self) {
        // The browser reports the status 422 of refused forms as an error.
        let complaints = self.browser.complaints().await.into_iter();
        let others: Vec<String> = complaints.filter(|it| !it.contains("422")).collect();
        assert_eq!(others, [""; 0]);
    }

    async fn comes_by_her_link_and_sets_a_password(&self) {
        let link = invited(self.world, "rina@example.com");
        enter(&self.browser, &link, &self.words("link-submit")).await;
        self.see("password-title").await;
        self.fill("password-new", "pendek").await;
        self.press("password-submit").await;
        let too_short = self.words_with("fault-too-short", &[("bound", "10")]);
        self.browser.see(&too_short).await;
        self.fill("password-new", PASSWORD).await;
        self.press("password-submit").await;
        self.see("done-password-set").await;
    }

    async fn makes_a_key_uses_it_and_takes_it_back(&self) {
        self.go_to("nav-keys").await;
        self.fill("keys-name", "Kasir").await;
        self.press("keys-make-submit").await;
        self.see("keys-once").await;
        let shown = self.browser.text().await;
        let mut words = shown.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let key = words
            .find(|word| word.starts_with("dkl_") && word.len() > 20)
            .unwrap_or_else(|| panic!("no key in {shown}"));
        let api = Rest::new(&format!("{}/api/v1", self.world.server.http)).with("x-api-key", key);
        api.get("/agents").await.expect(200);

        // The key is never shown again.
        self.go_to("nav-keys").await;
        assert!(!self.browser.text().await.contains(key));
        self.press("keys-revoke").await;
        let question = self.words_with("keys-revoke-title", &[("name", "Kasir")]);
        self.browser.see(&question).await;
        self.press("keys-revoke").await;
        self.see("done-key-revoked").await;
        api.get("/agents").await.expect(401);
    }

    async fn makes_an_agent_that_answers_a_number(&self) -> String {
        let (tenant, did) = (&self.world.tenant.id, fresh_did());
        let number = [
            "number", "add", "--tenant", tenant, "--did", &did, "--label", "Toko",
        ];
        self.world.server.cli(&number);
        self.go_to("nav-agents").await;
        self.press("agents-make").await;
        self.arrive("agents-new").await;
        self.fill("agents-prompt", PROMPT).await;
        self.fill("agents-minutes", "241").await;
        self.press("agents-make-submit").await;
        // Typed values stay in the form, with the errors beside the fields.
        self.is_wrong("agents-name", "", "").await;
        self.is_wrong("agents-minutes", "241", "240").await;
        let prompt = self.words("agents-prompt");
        assert_eq!(self.browser.value(&prompt).await, PROMPT);
        self.fill("agents-name", "Sinta").await;
        self.fill("agents-minutes", "5").await;
        self.press("agents-make-submit").await;
        self.see("done-agent-made").await;

        let answer = self.words_with("agents-take-number", &[("number", &did)]);
        self.browser.press(&answer).await;
        self.see("done-number-assigned").await;
        did
    }

    /// Asserts that a field keeps its value and has an error that contains this text.
    async fn is_wrong(&self, label: &str, typed: &str, because: &str) {
        let label = self.words(label);
        let told = self.browser.told_beside(&label).await;
        assert!(told.contains(because), "{label}: {told}");
        assert_eq!(self.browser.value(&label).await, typed);
    }

    async fn adds_a_function_to_it(&self) {
        self.go_to("nav-agents").await;
        self.browser.press("Sinta").await;
        self.press("functions-make").await;
        self.arrive("functions-new").await;
        self.fill("functions-name", "cek_pesanan").await;
        self.fill("functions-description", "Mencari pesanan menurut nomornya.")
            .await;
        self.fill("functions-endpoint", "toko").await;
        self.press("parameter-as-json").await;
        let broken = "{\"type\": \"object\",\n \"properties\": {\"orderId\": }}";
        self.fill("functions-parameters", broken).await;
        self.press("functions-make-submit").await;
        self.is_wrong("functions-parameters", broken, "\"orderId\": }")
            .await;
        let parameters = json!({
            "type": "object",
            "properties": {"orderId": {"type": "string", "description": "Nomor pesanan"}},
            "required": ["orderId"],
        });
        self.fill("functions-parameters", &parameters.to_string())
            .await;
        self.press("functions-make-submit").await;
        self.is_wrong("functions-endpoint", "toko", "").await;
        let answer = ServerAnswer::Json(json!({"status": "dikirim"}));
        self.world.receiver.answer("/pesanan", [answer]);
        let endpoint = self.world.receiver.url("/pesanan");
        self.fill("functions-endpoint", &endpoint).await;
        self.press("functions-make-submit").await;
        self.see("done-function-made").await;
    }

    async fn follows_a_call_to_its_end(&self, did: &str) {
        let bridge = self.world.tenant.bridge(Socket).await;
        self.go_to("nav-calls").await;
        let call = bridge.ring(did).await;
        self.see_in_time(&self.words("calls-ringing")).await;
        let link = format!("//a[contains(@href, {call:?})]");
        let link = self.browser.one(&link).await;
        self.browser.click(&link).await;
        self.see("calls-rang").await;
        self.browser.run("window.neverLoadedAgain = true").await;

        bridge.ok("call.answered", json!({"callId": call})).await;
        self.see_in_time(&self.words("calls-was-answered")).await;
        let asked = json!({
            "callId": call, "invocationId": "one", "name": "cek_pesanan", "parameters": {"orderId": "A7"},
        });
        bridge.ok("call.function", asked).await;
        self.see_in_time("cek_pesanan").await;
        let said = json!({
            "callId": call, "summary": "Pesanan A7 sudah dikirim.",
            "turns": [{"role": "caller", "text": "Pesanan saya sampai mana?"}],
        });
        bridge.ok("call.transcript", said).await;
        self.see_in_time("Pesanan saya sampai mana?").await;
        bridge.hang_up(&call).await;
        self.see_in_time(&self.words("calls-over")).await;
        self.see_in_time(CALLER).await;
        if self.way.scripts {
            let same = self.browser.run("return window.neverLoadedAgain").await;
            assert_eq!(same, true, "the page was loaded again");
        }
    }

    async fn reads_how_the_week_went(&self) {
        let home = format!("{}/dashboard", self.world.server.http);
        self.browser.go(&home).await;
        self.see("home-per-hour").await;
        self.press("calls-period-7").await;
        self.see("home-per-day").await;
        self.see("home-busiest").await;
    }

    async fn sends_again_what_her_server_did_not_take(&self) {
        let receiver = &self.world.receiver;
        receiver.answer(
            "/toko",
            [ServerAnswer::Status(503), ServerAnswer::Status(204)],
        );
        self.go_to("nav-webhooks").await;
        self.press("webhooks-make").await;
        self.see("webhooks-make-words").await;
        self.fill("webhooks-url", &receiver.url("/toko")).await;
        self.press("webhooks-make-submit").await;
        self.see("done-webhook-made").await;
        let bridge = self.world.tenant.bridge(Socket).await;
        let call = bridge.talk(&self.world.tenant.did).await;
        bridge.hang_up(&call).await;
        let first = receiver.wait_for("/toko", 1).await.remove(0);

        self.go_to("nav-webhooks").await;
        self.browser.press(&receiver.url("/toko")).await;
        self.browser.press("call.ended").await;
        self.see("deliveries-resend").await;
        self.see_in_time("503").await;
        self.press("deliveries-resend").await;
        self.see("done-resent").await;
        let again = receiver.wait_for("/toko", 2).await.remove(1);
        assert_eq!(again.body, first.body);
        let url = self.browser.url().await;
        let arrived = self.words("deliveries-succeeded");
        eventually("the delivery to arrive", async || {
            self.browser.go(&url).await;
            self.browser.text().await.contains(&arrived).then_some(())
        })
        .await;
    }

    /// Invites a colleague; returns the link.
    async fn invites_a_colleague(&self) -> String {
        self.go_to("nav-members").await;
        self.fill("members-email", "joko@example.com").await;
        self.fill("members-name", "Joko").await;
        self.press("members-invite-submit").await;
        self.see("done-invited").await;
        let shown = self.browser.text().await;
        let mut words = shown.split_whitespace();
        let link = words.find(|word| word.contains("/dashboard/link/"));
        link.unwrap_or_else(|| panic!("no link in {shown}"))
            .to_owned()
    }

    async fn comes_by_the_invitation(&self, link: &str) {
        enter(&self.browser, link, &self.words("link-submit")).await;
        self.fill("password-new", "teh tawar hangat").await;
        self.press("password-submit").await;
        self.see("done-password-set").await;
        self.go_to("nav-calls").await;
        self.browser.see(CALLER).await;
    }
}

/// Names and addresses without a space, as long as they may be.
async fn long_names(world: &TestWorld) -> Vec<String> {
    let (server, tenant) = (&world.server, &world.tenant);
    let name = "Cabang".repeat(20);
    tenant.change_agent(json!({"name": name})).await;
    let function = "find_available_appointments_at".repeat(2);
    let url = format!("{}/{}", world.receiver.url("/long"), "a".repeat(170));
    tenant.create_function(&function, "POST", &url).await;
    let hook = tenant.subscribe(&url, &["call.ended"], SECRET).await;
    let rotate = format!("/webhooks/{hook}/rotate-secret");
    let secret = json!({"secret": "another-horse-battery-staple"});
    tenant.api.post(&rotate, secret).await.expect(200);
    server.cli(&["key", "create", "--tenant", &tenant.id, "--name", &name]);
    let email = format!("{}@example.com", "sari".repeat(12));
    server.cli(&[
        "user", "create", "--tenant", &tenant.id, "--email", &email, "--name", &name, "--role",
        "viewer",
    ]);
    let agent = format!("/agents/{}", tenant.agent);
    let function = format!("{agent}/functions/{function}");
    let hook = format!("/webhooks/{hook}");
    [
        &*agent,
        &*function,
        &*hook,
        "/agents",
        "/numbers",
        "/webhooks",
        "/settings/keys",
        "/settings/members",
        "/audit",
    ]
    .map(|page| format!("{}/dashboard{page}", server.http))
    .into()
}

#[rstest]
#[actix_web::test]
async fn long_names_fit_every_window(#[values(320, 800, 1280)] width: u32) {
    let Some(browser) = Browser::open("en").await else {
        return;
    };
    let world = world!(Sqlite);
    let pages = long_names(&world).await;
    enter(&browser, &invited(&world, "rina@example.com"), "Sign in").await;
    browser.look(width, "light").await;
    let beyond = "return document.documentElement.scrollWidth - innerWidth";
    let mut faults = Vec::new();
    for page in pages {
        browser.go(&page).await;
        let beyond = browser.run(beyond).await.as_i64().unwrap();
        if beyond > 0 {
            faults.push(format!("{page} is {beyond} px too wide"));
        }
        // A long label leaves its fact room.
        let facts = "return Math.min(...[...document.querySelectorAll('.facts dd')].map(it => it.clientWidth), 999)";
        let room = browser.run(facts).await.as_i64().unwrap();
        if room < 120 {
            faults.push(format!("{page} has {room} px for a fact"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
