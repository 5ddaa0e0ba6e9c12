//! The audit: who changed what, when and from where. Each change writes its entry in its own transaction, so that
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

/// The actor of a change and the origin of its request.
#[derive(Clone, Debug)]
pub struct ChangeOrigin {
    pub actor: Actor,
    /// The network address of the client; none on the command line.
    pub address: Option<IpAddr>,
    /// The request that asked for the change; none on the command line.
    pub request_id: Option<String>,
    /// The node that carries out the change.
    pub node: Arc<str>,
}

impl ChangeOrigin {
    /// A command that runs on the machine of the node with that name.
    pub fn cli(node: &str) -> Self {
        Self {
            actor: Actor::Cli,
            address: None,
            request_id: None,
            node: node.into(),
        }
    }

    /// The entry of a change, to be written in the transaction of that change.
    pub fn entry(&self, tenant: Option<TenantId>, change: AuditChange, now: Millis) -> Model {
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
        change: AuditChange,
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

/// A change: the action, its target and a detail.
#[derive(Clone, Debug)]
pub struct AuditChange {
    action: AuditAction,
    target: String,
    detail: String,
}

impl AuditChange {
    /// An action on the target with that id.
    pub fn new(action: AuditAction, target: impl Display) -> Self {
        Self {
            action,
            target: target.to_string(),
            detail: String::new(),
        }
    }

    /// A booking of minutes. The ledger adds the id of its transaction.
    pub fn booking(credit: &Credit) -> Self {
        let Credit { minutes, kind, .. } = credit;
        let change = Self::new(AuditAction::CreditAdd, credit.tenant);
        match &credit.reference {
            Some(reference) => change.with(format_args!("{minutes} {kind}, reference {reference}")),
            None => change.with(format_args!("{minutes} {kind}")),
        }
    }

    /// Sets the detail. It must hold no secret and nothing about a caller.
    pub fn with(mut self, detail: impl Display) -> Self {
        self.detail = detail.to_string().chars().take(DETAIL_CHARS_MAX).collect();
        self
    }

    /// Names in the detail the fields that changed. Each field comes with whether it changed.
    pub fn fields(self, fields: &[(&str, bool)]) -> Self {
        let changed = fields.iter().filter(|(_, changed)| *changed);
        let names: Vec<&str> = changed.map(|(name, _)| *name).collect();
        self.with(names.join(", "))
    }
}

/// The field `isActive` with its present value, as [`AuditChange::fields`] takes it.
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

/// A query for audit entries.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    /// None: entries of all tenants and entries without a tenant.
    pub tenant: Option<TenantId>,
    pub actor: Option<Actor>,
    pub action: Option<AuditAction>,
    /// Inclusive.
    pub from: Option<Millis>,
    /// Exclusive.
    pub to: Option<Millis>,
}

impl AuditQuery {
    /// At most `limit` entries, newest first, older than the entry `before` if it is given. If the tenant has no such
    /// entry, the page is empty.
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

    /// All matching entries, newest first.
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
    // Redundant, but lets the database start its index scan at the page.
    Condition::all().add(Column::At.lte(last.at)).add(
        Condition::any()
            .add(Column::At.lt(last.at))
            .add(same_moment),
    )
}
