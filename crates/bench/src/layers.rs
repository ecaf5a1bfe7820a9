//! Where the time of a step goes.

use crate::client::{Work, objective};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    work: Work,
    /// Print a Markdown table instead of JSON
    #[arg(long)]
    markdown: bool,
}

/// One layer: its best time of all steps, which other programs on the machine disturb least.
struct Row {
    label: String,
    /// Multiplications by the definition, forward and backward.
    products: [f64; 2],
    seconds: [f64; 2],
}

pub(crate) fn measure(args: &Args) -> anyhow::Result<Value> {
    let work = &args.work;
    let network = work.network()?;
    let mut clients = work.clients(&network);
    let batch = f64::from(work.batch);
    let mut rows: Vec<Row> = Vec::new();
    let (mut step, mut outside) = (f64::INFINITY, f64::INFINITY);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < work.warm_up + work.seconds {
        let client = &mut clients[0];
        client.time_layers();
        let began = Instant::now();
        client.step();
        let whole = began.elapsed().as_secs_f64();
        step = step.min(whole);
        let times = client.layer_times();
        // Of one and the same step: the best step less the best of every layer would also have all that
        // happened to the layers of that step.
        let layers: f64 = times.iter().map(|layer| layer.forward + layer.backward).sum();
        outside = outside.min(whole - layers);
        if rows.is_empty() {
            rows.extend(times.iter().map(|layer| {
                let products = layer.products as f64 * batch;
                let backward = products * if layer.passes_on { 2.0 } else { 1.0 };
                Row {
                    label: layer.label.clone(),
                    products: [products, backward],
                    seconds: [f64::INFINITY; 2],
                }
            }));
        }
        for (row, layer) in rows.iter_mut().zip(times) {
            row.seconds = [row.seconds[0].min(layer.forward), row.seconds[1].min(layer.backward)];
        }
    }
    objective(&clients)?;
    if args.markdown {
        return Ok(Value::String(markdown(&rows, batch, (outside, step))));
    }
    let listed = rows.iter().map(|row| {
        json!({
            "layer": row.label,
            "forward_us": 1e6 * row.seconds[0] / batch,
            "backward_us": 1e6 * row.seconds[1] / batch,
            "forward_gflops": 2e-9 * row.products[0] / row.seconds[0],
            "backward_gflops": 2e-9 * row.products[1] / row.seconds[1],
        })
    });
    Ok(json!({
        "layers": listed.collect::<Vec<_>>(),
        "step_us": 1e6 * step / batch,
        "outside_layers_us": 1e6 * outside / batch,
    }))
}

fn markdown(rows: &[Row], batch: f64, (outside, step): (f64, f64)) -> String {
    let mut text = String::from(
        "| layer | forward µs | GFLOP/s | backward µs | GFLOP/s | share |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for row in rows {
        let [forward, backward] = row.seconds.map(|s| 1e6 * s / batch);
        let rate = |i: usize| match row.products[i] {
            0.0 => "—".to_owned(),
            products => format!("{:.0}", 2e-9 * products / row.seconds[i]),
        };
        let share = 100.0 * (row.seconds[0] + row.seconds[1]) / step;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | {forward:.1} | {} | {backward:.1} | {} | {share:.0} % |",
            row.label,
            rate(0),
            rate(1),
        );
    }
    let _ = writeln!(
        text,
        "| loss, update, copying the batch | {:.1} | | | | {:.0} % |",
        1e6 * outside / batch,
        100.0 * outside / step
    );
    text
}
