//! What was run, completely and in words: what all methods have in common, and what differs.

mod group;

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::drawing::scrolling;
use super::{headings, swatch, text};
use crate::scoreboard::names;
use crate::{RunLog, rows};
use group::{Group, groups, spoken, written};

/// The settings of the experiment by topic, and the table of methods.
pub(super) fn section(page: &mut String, logs: &[RunLog]) {
    let groups = groups(logs);
    if groups.is_empty() {
        page.push_str("<p class=\"caption\">The log does not hold the experiment.</p>\n");
    } else {
        page.push_str(
            "<p class=\"caption\">What all methods have in common, every default filled in; below it, \
             what each of them has of its own.</p>\n<div class=\"groups\">\n",
        );
    }
    for Group { title, facts } in &groups {
        let _ = writeln!(page, "<div class=\"card\"><h3>{title}</h3>\n<dl>");
        for (name, value) in facts {
            let (name, value) = (text(name), text(value));
            let _ = writeln!(page, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
        page.push_str("</dl></div>\n");
    }
    if !groups.is_empty() {
        page.push_str("</div>\n");
    }
    methods(page, &logs[0]);
}

/// One row per method: how it trains where methods differ in that, and its own hyper-parameters.
fn methods(page: &mut String, log: &RunLog) {
    if log.methods.is_empty() {
        return;
    }
    let config = &log.started.config;
    let common = config.get("train").and_then(Value::as_object);
    let own: Vec<Option<&Map<String, Value>>> =
        log.methods.iter().map(|method| own_training(config, &method.info.label)).collect();
    let keys: BTreeSet<&String> = own.iter().flatten().flat_map(|own| own.keys()).collect();
    page.push_str("<h3 class=\"above\">Methods</h3>\n");
    let mut table = String::from("<table class=\"dense methods\">\n");
    let spoken_keys = keys.iter().map(|key| text(&spoken(key)));
    let columns = ["method".to_owned(), "in the zoo".to_owned()].into_iter().chain(spoken_keys);
    headings(&mut table, columns.chain(["hyper-parameters of its own".to_owned()]));
    let named = names(&rows(log)).into_iter().enumerate().zip(log.methods.iter().zip(&own));
    for ((slot, name), (method, own)) in named {
        let _ = write!(
            table,
            "<tr><th scope=\"row\">{}{}</th><td>{}</td>",
            swatch(slot),
            text(&name),
            text(&method.info.name)
        );
        for key in &keys {
            let set = own.and_then(|own| own.get(*key)).or_else(|| common?.get(*key));
            let shown = set.map_or_else(|| "–".to_owned(), written);
            let _ = write!(table, "<td>{}</td>", text(&shown));
        }
        let _ = writeln!(
            table,
            "<td class=\"list\">{}</td></tr>",
            text(&hyper_parameters(&method.info.hyper_parameters))
        );
    }
    table.push_str("</tbody>\n</table>");
    scrolling(page, "wide", "Methods and what they have of their own", &table);
}

/// What a method says of training that is not as for all.
fn own_training<'c>(config: &'c Value, label: &str) -> Option<&'c Map<String, Value>> {
    let methods = config.get("method")?.as_array()?;
    let is_it = |entry: &&Value| entry.get("label").and_then(Value::as_str) == Some(label);
    methods.iter().find(is_it)?.get("train")?.as_object()
}

fn hyper_parameters(parameters: &Value) -> String {
    match parameters {
        Value::Object(map) if map.is_empty() => "none".to_owned(),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{key} = {}", written(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        Value::Null => "none".to_owned(),
        other => written(other),
    }
}
