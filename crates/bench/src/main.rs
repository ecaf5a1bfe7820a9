//! `formant-bench`: single measurements of the engine, each a JSON object on standard output.
//!
//! `bench/run` starts it, in a fresh process for every measurement and in turns with the engines
//! that Formant is compared with. Whole rounds are measured on the `formant` binary itself.
//! `crowd` measures a server with many clients, and prints tables unless it is asked for JSON
//! (docs/SCALING.md).

mod augment;
mod client;
mod crowd;
mod layers;
mod sgemm;
mod spectral;
mod steps;
mod stopwatch;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "formant-bench", version, about = "Single measurements of Formant's engine")]
struct Cli {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    /// Training steps: forward, cross-entropy, backward, optimiser
    Steps(steps::Args),
    /// What augmentation adds to a training step
    Augment(augment::Args),
    /// What the spectral term adds to a training step
    Spectral(spectral::Args),
    /// Where the time of a step goes, layer by layer
    Layers(layers::Args),
    /// A server and many clients: rounds, bytes, memory and latencies over real sockets
    Crowd(Box<crowd::Args>),
    /// Products of large square matrices: the crate `gemm` and our own
    Sgemm(sgemm::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().measurement {
        Measurement::Steps(args) => steps::measure(&args),
        Measurement::Augment(args) => augment::measure(&args),
        Measurement::Spectral(args) => spectral::measure(&args),
        Measurement::Layers(args) => layers::measure(&args),
        Measurement::Crowd(args) => crowd::measure(&args),
        Measurement::Sgemm(args) => sgemm::measure(&args),
    };
    match outcome {
        Ok(figures) => {
            match figures {
                serde_json::Value::String(text) => print!("{text}"),
                figures => println!("{figures}"),
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
