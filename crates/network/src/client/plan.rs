//! From the experiment that the server has sent and the client's own data to what it computes.

use super::Source;
use super::vault::Terms;
use crate::error::NetworkError;
use crate::wire::confused;
use formant_data::{ClientData, Federation, description};
use formant_experiment::{Experiment, Override};
use formant_runtime::RunPlan;
use std::sync::Arc;
use toml::Table;

/// Wires the experiment up over the client's own data: other clients are there, and hold nothing.
pub(crate) fn of(terms: &Terms, source: Source) -> Result<RunPlan, NetworkError> {
    let table: Table = terms
        .experiment
        .parse()
        .map_err(|error| confused(format!("the experiment is no TOML: {error}")))?;
    let plan = match source {
        Source::Share(share) => {
            let experiment = Experiment::parse_for_network(&table, &[])?;
            let key = |key: &str| table.get("data").and_then(|data| data.get(key));
            let name = key("dataset").and_then(toml::Value::as_str).unwrap_or_default();
            let (dataset, data) = share.into_dataset(name, &description(name)?)?;
            let count = key("clients").and_then(toml::Value::as_integer);
            let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            let mut clients = vec![ClientData::default(); count];
            if let Some(own) = clients.get_mut(terms.client) {
                *own = data;
            }
            experiment.plan_on(Federation { dataset: Arc::new(dataset), clients })?
        }
        Source::Rehearse { dir } => {
            let dir = dir.map(|dir| Override::new(&["data", "dir"], dir.display().to_string()));
            let experiment =
                Experiment::parse_for_network(&table, &dir.into_iter().collect::<Vec<_>>())?;
            let mut federation = experiment.federation()?;
            for (client, data) in federation.clients.iter_mut().enumerate() {
                if client != terms.client {
                    *data = ClientData::default();
                }
            }
            experiment.plan_on(federation)?
        }
    };
    if plan.methods.len() != 1 || plan.federation.clients.len() <= terms.client {
        return Err(confused(format!(
            "{} methods and {} clients, of which this is number {}",
            plan.methods.len(),
            plan.federation.clients.len(),
            terms.client
        )));
    }
    if plan.federation.clients[terms.client].train.is_empty() {
        return Err(NetworkError::setting(
            "there are no samples to train on",
            "give this client data with training samples",
        ));
    }
    Ok(plan)
}
