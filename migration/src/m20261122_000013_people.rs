//! Dashboard users, their one-time links and sessions, and failed sign-ins.

use super::Statements;

pub(crate) const STEP: Statements = Statements {
    file: file!(),
    up: &[
        "CREATE TABLE users (id TEXT NOT NULL PRIMARY KEY, tenant_id TEXT NOT NULL, email TEXT NOT NULL, name TEXT NOT NULL, \
     role TEXT NOT NULL, language TEXT, time_zone TEXT, password_hash TEXT, mails_low_credit BOOLEAN NOT NULL, \
     mails_disabled_webhooks BOOLEAN NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL)",
        "CREATE UNIQUE INDEX users_email ON users (email)",
        "CREATE INDEX users_tenant ON users (tenant_id, id)",
        "CREATE TABLE login_links (hash TEXT NOT NULL PRIMARY KEY, user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, \
     created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL, consumed_at BIGINT)",
        "CREATE INDEX login_links_user ON login_links (user_id)",
        "CREATE INDEX login_links_end ON login_links (expires_at)",
        "CREATE TABLE sessions (hash TEXT NOT NULL PRIMARY KEY, tenant_id TEXT NOT NULL, \
     user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, by_link BOOLEAN NOT NULL, address TEXT NOT NULL, \
     agent TEXT NOT NULL, note TEXT, created_at BIGINT NOT NULL, used_at BIGINT NOT NULL, ends_at BIGINT NOT NULL)",
        "CREATE INDEX sessions_user ON sessions (user_id)",
        "CREATE INDEX sessions_tenant ON sessions (tenant_id)",
        "CREATE INDEX sessions_end ON sessions (ends_at)",
        "CREATE TABLE sign_in_failures (subject TEXT NOT NULL PRIMARY KEY, failed_at TEXT NOT NULL, ends_at BIGINT NOT NULL)",
        "CREATE INDEX sign_in_failures_end ON sign_in_failures (ends_at)",
        "ALTER TABLE api_keys ADD COLUMN made_by TEXT",
    ],
    down: &[
        "ALTER TABLE api_keys DROP COLUMN made_by",
        "DROP TABLE sign_in_failures",
        "DROP TABLE sessions",
        "DROP TABLE login_links",
        "DROP TABLE users",
    ],
};
