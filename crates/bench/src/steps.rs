//! Training steps a second.

use crate::client::{Client, Work, objective};
use crate::stopwatch::{Tally, together};
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    work: Work,
}

pub(crate) fn measure(args: &Args) -> anyhow::Result<Value> {
    let work = &args.work;
    let network = work.network()?;
    let mut clients = work.clients(&network);
    let tallies = together(&mut clients, (work.warm_up, work.seconds), Client::step);
    let steps_per_second = Tally::rate(&tallies);
    Ok(json!({
        "parameters": network.layout().parameters(),
        "steps": Tally::total(&tallies),
        "steps_per_second": steps_per_second,
        "images_per_second": steps_per_second * f64::from(work.batch),
        "objective": objective(&clients)?,
    }))
}
