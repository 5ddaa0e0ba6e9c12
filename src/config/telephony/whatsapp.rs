//! Trunks with `preset = "whatsapp"`: their fields, and the settings that follow. Pure.

use config::{Value, ValueKind};
use dikala_sip::settings::{
    AnswerOrder, Credentials, OutboundIdentity, OutboundSettings, SessionTimer, TransferMethod,
    Trunk, TrunkPreset,
};
use ipnet::IpNet;

use super::trunk_tables::{OutboundTable, TrunkTable, address};

/// The value of `preset`.
const NAME: &str = "whatsapp";
/// The address for calls to people on WhatsApp.
const META: &str = "sip:wa.meta.vc:5061;transport=tls";

/// True if a trunk in this list has the preset.
pub(in crate::config) fn has_whatsapp(trunks: &ValueKind) -> bool {
    let ValueKind::Array(items) = trunks else {
        return false;
    };
    let is_whatsapp = |item: &Value| match &item.kind {
        ValueKind::Table(fields) => {
            let preset = fields.get("preset").map(|value| &value.kind);
            matches!(preset, Some(ValueKind::String(preset)) if preset == NAME)
        }
        _ => false,
    };
    items.iter().any(is_whatsapp)
}

/// The preset of a trunk.
pub(super) fn preset(text: Option<&str>) -> Result<Option<TrunkPreset>, String> {
    match text {
        None => Ok(None),
        Some(NAME) => Ok(Some(TrunkPreset::WhatsApp)),
        Some(other) => Err(format!("preset is {other:?}; it must be {NAME}")),
    }
}

/// The settings of a trunk with the preset, without the limits that every trunk may have.
pub(super) fn trunk(table: &TrunkTable, addresses: Vec<IpNet>) -> Result<Trunk, String> {
    refuse_fields(table)?;
    if addresses.is_empty() {
        return Err(format!(
            "addresses must be set with the preset {NAME}: the ranges from which Meta calls"
        ));
    }
    let Some(number) = table.numbers()?.0 else {
        return Err(format!(
            "number must be set with the preset {NAME}: the business number, like +622150001000"
        ));
    };
    if table.transfer.is_some() && table.transfer_trunk.is_none() {
        return Err(
            "transfer is \"bridge\", and transfer_trunk is not set; name the trunk over which persons are called, or remove transfer"
                .to_owned(),
        );
    }
    let outbound = table.outbound.as_ref();
    let uri = outbound.and_then(|of| of.uri.as_deref());
    Ok(Trunk {
        name: table.name.clone(),
        addresses,
        outbound: OutboundSettings {
            uri: Some(place(uri)?),
            credentials: table.whatsapp_password().map(|password| Credentials {
                username: number.trim_start_matches('+').to_owned(),
                password: password.to_owned(),
            }),
            from: OutboundIdentity::Account,
        },
        number: Some(number),
        transfer: TransferMethod::Bridge,
        session_timer: SessionTimer::Off,
        answer_order: AnswerOrder::Ours,
        preset: Some(TrunkPreset::WhatsApp),
        is_out_of_service: table.account_fault.is_some() && table.password.is_none(),
        ..Trunk::default()
    })
}

/// Refuses fields that the preset decides.
fn refuse_fields(table: &TrunkTable) -> Result<(), String> {
    let outbound = table.outbound.as_ref();
    let is_of_outbound = |is_set: fn(&OutboundTable) -> bool| outbound.is_some_and(is_set);
    for (field, is_set) in [
        ("username", table.username.is_some()),
        ("register", table.register.is_some()),
        ("prefix", table.prefix.is_some()),
        ("extensions", !table.extensions.is_empty()),
        ("answer_order", table.answer_order.is_some()),
        (
            "outbound.username",
            is_of_outbound(|of| of.username.is_some()),
        ),
        (
            "outbound.password",
            is_of_outbound(|of| of.password.is_some()),
        ),
        ("outbound.from", is_of_outbound(|of| of.from.is_some())),
    ] {
        if is_set {
            return Err(format!(
                "{field} is not for a trunk with the preset {NAME}, which follows Meta's rules; remove it"
            ));
        }
    }
    for (field, value, only) in [
        ("session_timer", &table.session_timer, "off"),
        ("transfer", &table.transfer, "bridge"),
    ] {
        if let Some(value) = value.as_ref().filter(|value| *value != only) {
            return Err(format!(
                "{field} is {value:?}; with the preset {NAME} it is {only}, because Meta serves no request that changes a call"
            ));
        }
    }
    Ok(())
}

/// The address for calls to people, over TLS.
fn place(uri: Option<&str>) -> Result<String, String> {
    let Some(uri) = uri else {
        return Ok(META.to_owned());
    };
    let uri = address("outbound.uri", uri)?;
    match uri.starts_with("sips:") || uri.contains(";transport=tls") {
        true => Ok(uri),
        false => Err(format!(
            "outbound.uri is {uri:?}; with the preset {NAME} it must be over TLS, like {META}"
        )),
    }
}

#[cfg(test)]
mod tests;
