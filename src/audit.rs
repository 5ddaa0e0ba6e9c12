//! The audit: who changed what, when and from where. Whoever changes something writes its entry in the same transaction, so that
//! there is no change without its entry and no entry without its change.

use std::{fmt::Display, net::IpAddr, sync::Arc};

use dikala_actors::ledger::Credit;
use dikala_entities::{
    Actor, AuditAction, AuditId, Millis, Store, TenantId,
    audit::{Column, Entity, Model},
    store::{Transaction, is_transient},
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, Select,
};

/// The longest detail, in characters.
const DETAIL_CHARS_MAX: usize = 500;

/// Who asks for a change, and from where.
#[derive(Clone, Debug)]
pub struct Origin {
    pub actor: Actor,
    /// The network address of whoever asks; none on the command line.
    pub address: Option<IpAddr>,
    /// The request that it comes with; none on the command line.
    pub request_id: Option<String>,
    /// The node that carries it out.
    pub node: Arc<str>,
}

impl Origin {
    /// A command on the machine of the node with that name.
    pub fn cli(node: &str) -> Self {
        Self {
            actor: Actor::Cli,
            address: None,
            request_id: None,
            node: node.into(),
        }
    }

    /// The entry of a change, to be written in its transaction.
    pub fn entry(&self, tenant: Option<TenantId>, change: Change, now: Millis) -> Model {
        Model {
            id: AuditId::new(now),
            tenant_id: tenant,
            actor: self.actor,
            action: change.action,
            target: change.target,
            detail: change.detail,
            at: now,
            address: self
                .address
                .map(|address| address.to_canonical().to_string()),
            request_id: self.request_id.clone(),
            node: self.node.to_string(),
        }
    }

    /// Writes the audit entry of a tenant's change in the transaction of that change. Returns its id.
    pub async fn write(
        &self,
        txn: &impl ConnectionTrait,
        tenant: impl Into<Option<TenantId>>,
        change: Change,
        now: Millis,
    ) -> Result<AuditId, DbErr> {
        let entry = self.entry(tenant.into(), change, now);
        let id = entry.id;
        let written = Entity::insert(entry.into_active_model()).exec_without_returning(txn);
        written.await.map(|_| id)
    }
}

/// Commits the transaction of an entry. If the answer to the commit is lost, looks for the entry to learn the outcome. A
/// transient error then means that it was not found.
pub async fn commit(store: &Store, txn: Transaction, entry: Option<AuditId>) -> Result<(), DbErr> {
    let Err(error) = txn.commit().await else {
        return Ok(());
    };
    let Some(entry) = entry.filter(|_| is_transient(&error)) else {
        return Err(error);
    };
    let looking = store.begin_critical().await?;
    let found = Entity::find_by_id(entry).one(&looking).await?;
    if found.is_none() {
        return Err(error);
    }
    looking.confirm().await
}

/// What somebody changed.
#[derive(Clone, Debug)]
pub struct Change {
    action: AuditAction,
    target: String,
    detail: String,
}

impl Change {
    /// What was done to the thing with that id.
    pub fn new(action: AuditAction, target: impl Display) -> Self {
        Self {
            action,
            target: target.to_string(),
            detail: String::new(),
        }
    }

    /// Minutes that are booked. The ledger adds which transaction it is.
    pub fn booking(credit: &Credit) -> Self {
        let Credit { minutes, kind, .. } = credit;
        let change = Self::new(AuditAction::CreditAdd, credit.tenant);
        match &credit.reference {
            Some(reference) => change.with(format_args!("{minutes} {kind}, reference {reference}")),
            None => change.with(format_args!("{minutes} {kind}")),
        }
    }

    /// What is worth knowing besides. Nothing that is secret or tells of a caller may be in it.
    pub fn with(mut self, detail: impl Display) -> Self {
        self.detail = detail.to_string().chars().take(DETAIL_CHARS_MAX).collect();
        self
    }

    /// The fields that changed, each with whether it did.
    pub fn fields(self, fields: &[(&str, bool)]) -> Self {
        let changed = fields.iter().filter(|(_, changed)| *changed);
        let names: Vec<&str> = changed.map(|(name, _)| *name).collect();
        self.with(names.join(", "))
    }
}

/// The field that switches something on or off, as [`Change::fields`] takes it, with what it is now.
pub const fn switched(now: bool, before: bool) -> (&'static str, bool) {
    (
        if now {
            "isActive=true"
        } else {
            "isActive=false"
        },
        now != before,
    )
}

/// Which entries are asked for.
#[derive(Clone, Debug)]
pub struct Entries {
    /// None: whosever they are.
    tenant: Option<TenantId>,
    pub actor: Option<Actor>,
    pub action: Option<AuditAction>,
    /// Inclusive.
    pub from: Option<Millis>,
    /// Exclusive.
    pub to: Option<Millis>,
}

/// All entries of a tenant.
pub const fn of(tenant: TenantId) -> Entries {
    Entries {
        tenant: Some(tenant),
        ..all()
    }
}

/// All entries.
pub const fn all() -> Entries {
    Entries {
        tenant: None,
        actor: None,
        action: None,
        from: None,
        to: None,
    }
}

impl Entries {
    /// At most so many of them, newest first; older than the entry `before`, where one is given. None are older than an entry that
    /// the tenant does not have.
    pub async fn page(
        &self,
        db: &impl ConnectionTrait,
        before: Option<AuditId>,
        limit: u64,
    ) -> Result<Vec<Model>, DbErr> {
        let mut select = self.select();
        if let Some(before) = before {
            let of = self.tenant.map(|tenant| Column::TenantId.eq(tenant));
            let ours = Entity::find_by_id(before).filter(Condition::all().add_option(of));
            let Some(last) = ours.one(db).await? else {
                return Ok(Vec::new());
            };
            select = select.filter(older(&last));
        }
        select.limit(limit).all(db).await
    }

    /// All that are asked for, newest first.
    pub fn select(&self) -> Select<Entity> {
        Entity::find()
            .filter(self.condition())
            .order_by_desc(Column::At)
            .order_by_desc(Column::Id)
    }

    fn condition(&self) -> Condition {
        Condition::all()
            .add_option(self.tenant.map(|tenant| Column::TenantId.eq(tenant)))
            .add_option(self.actor.map(|actor| Column::Actor.eq(actor)))
            .add_option(self.action.map(|action| Column::Action.eq(action)))
            .add_option(self.from.map(|from| Column::At.gte(from)))
            .add_option(self.to.map(|to| Column::At.lt(to)))
    }
}

fn older(last: &Model) -> Condition {
    let same_moment = Condition::all()
        .add(Column::At.eq(last.at))
        .add(Column::Id.lt(last.id));
    // Said twice, so that the index begins where the page does.
    Condition::all().add(Column::At.lte(last.at)).add(
        Condition::any()
            .add(Column::At.lt(last.at))
            .add(same_moment),
    )
}
