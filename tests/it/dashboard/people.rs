//! Operators create, list, link and remove people.

use super::*;
use crate::support::server::{assert_fails, installation};

#[actix_web::test]
async fn people_are_made_listed_linked_and_removed() {
    let installation = installation!(Postgres);
    let tenant = text(
        &installation.cli(&["tenant", "create", "--name", "Toko"]),
        "id",
    );
    let before = Moment::now();
    let made = installation.cli(&[
        "user",
        "create",
        "--tenant",
        &tenant,
        "--email",
        " Sari@Toko.example",
    ]);
    let half_an_hour = before.plus(1_800)..=Moment::now().plus(1_800);
    let id = text(&made, "id");
    assert!(id.starts_with("user_") && id.len() == 31, "{id}");
    assert_eq!(
        [&made["email"], &made["role"], &made["name"]],
        ["sari@toko.example", "owner", "sari"]
    );
    assert!(
        half_an_hour.contains(&Moment::parse(&made["expiresAt"])),
        "{made}"
    );
    let url = text(&made, "url");
    let listen = installation
        .settings
        .iter()
        .find(|(name, _)| name == "DIKALA_HTTP__LISTEN")
        .unwrap();
    assert!(
        url.starts_with(&format!("http://{}/dashboard/", listen.1)),
        "{url}"
    );

    let again = installation.cli(&["user", "login-link", &id]);
    assert_eq!(again["id"], id);
    assert_ne!(text(&again, "url"), url);
    let arguments = [
        "user",
        "create",
        "--tenant",
        &tenant,
        "--email",
        "b@toko.example",
        "--name",
        "Budi",
        "--role",
        "viewer",
    ];
    let second = installation.cli(&arguments);
    assert_eq!([&second["name"], &second["role"]], ["Budi", "viewer"]);
    let list = installation.cli(&["user", "list", "--tenant", &tenant]);
    let emails: Vec<&Value> = list["users"]
        .as_array()
        .unwrap()
        .iter()
        .map(|user| &user["email"])
        .collect();
    assert_eq!(emails, ["sari@toko.example", "b@toko.example"]);
    assert!(!list.to_string().contains("dko_"), "{list}");

    let other = text(
        &installation.cli(&["tenant", "create", "--name", "Lain"]),
        "id",
    );
    let nobody = "user_01k9zzzzzzzzzzzzzzzzzzzzzz";
    let no_tenant = "ten_01k9zzzzzzzzzzzzzzzzzzzzzz";
    for (arguments, code, names) in [
        (
            &[
                "user",
                "create",
                "--tenant",
                &other,
                "--email",
                "SARI@toko.example",
            ][..],
            6,
            "sari@toko.example",
        ),
        (
            &["user", "create", "--tenant", &tenant, "--email", "sari"],
            6,
            "must be an email address",
        ),
        (
            &[
                "user", "create", "--tenant", &tenant, "--email", "c@d", "--name", " ",
            ],
            6,
            "name",
        ),
        (
            &[
                "user", "create", "--tenant", &tenant, "--email", "c@d", "--role", "king",
            ],
            2,
            "king",
        ),
        (&["user", "create", "--tenant", &tenant], 2, "--email"),
        (
            &["user", "create", "--tenant", no_tenant, "--email", "c@d"],
            5,
            no_tenant,
        ),
        (&["user", "list", "--tenant", no_tenant], 5, no_tenant),
        (&["user", "login-link", nobody], 5, nobody),
        (&["user", "remove", nobody], 5, nobody),
        (&["user", "remove", "nonsense"], 5, "nonsense"),
    ] {
        assert_fails(&installation.run(arguments), &[code], names);
    }
    assert_eq!(
        installation.cli(&["user", "remove", &id])["email"],
        "sari@toko.example"
    );
    assert_fails(&installation.run(&["user", "remove", &id]), &[5], &id);
    // The email address is free again, also for another tenant.
    installation.cli(&[
        "user",
        "create",
        "--tenant",
        &other,
        "--email",
        "sari@toko.example",
    ]);
}

#[rstest]
#[actix_web::test]
async fn links_begin_where_people_reach_the_service(#[values(Sqlite)] store: StoreKind) {
    let mut installation = installation!(store);
    let tenant = text(
        &installation.cli(&["tenant", "create", "--name", "Toko"]),
        "id",
    );
    for (n, (key, value, begins)) in [
        (
            "http.public_url",
            "https://voice.example.com:8443",
            "https://voice.example.com:8443/dashboard/",
        ),
        (
            "http.public_url",
            "HTTPS://Voice.example.com:443/",
            "https://voice.example.com/dashboard/",
        ),
        ("http.public_url", "", "http://127.0.0.1:"),
    ]
    .into_iter()
    .enumerate()
    {
        installation.set(key, value);
        let made = create_with(&installation, &tenant, n);
        assert!(made.starts_with(begins), "{made}");
    }
    installation.set("http.listen", "0.0.0.0:4711");
    assert!(create_with(&installation, &tenant, 9).starts_with("http://127.0.0.1:4711/dashboard/"));
    for wrong in [
        "voice.example.com",
        "https://voice.example.com/here",
        "https://me@voice.example.com",
    ] {
        installation.set("http.public_url", wrong);
        assert_fails(
            &installation.run(&["tenant", "list"]),
            &[3],
            "http.public_url",
        );
    }
}

fn create_with(installation: &Installation, tenant: &str, n: usize) -> String {
    let email = format!("n{n}@example.com");
    text(
        &installation.cli(&["user", "create", "--tenant", tenant, "--email", &email]),
        "url",
    )
}
