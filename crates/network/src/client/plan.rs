//! From the experiment that the server has sent and the client's own data to what it computes.

use super::Source;
use super::vault::Terms;
use crate::error::NetworkError;
use crate::wire::confused;
use formant_data::{ClientData, Federation};
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
        Source::Own { dataset, data } => {
            let experiment = Experiment::parse(&table, &[])?;
            let count = table.get("data").and_then(|data| data.get("clients")?.as_integer());
            let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            let mut clients = vec![ClientData::default(); count];
            if let Some(own) = clients.get_mut(terms.client) {
                *own = data;
            }
            experiment.plan_on(Federation { dataset: Arc::new(dataset), clients })?
        }
        Source::Rehearse { dir } => {
            let dir = dir.map(|dir| Override::new(&["data", "dir"], dir.display().to_string()));
            let experiment = Experiment::parse(&table, &dir.into_iter().collect::<Vec<_>>())?;
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
