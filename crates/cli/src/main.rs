//! `formant`: personalized federated learning in one binary.

mod args;
mod cert;
mod data;
mod data_export;
mod devices;
mod evaluate;
mod export_model;
mod folder;
mod interrupt;
mod join;
mod list;
mod output;
mod predict;
mod progress;
mod ranking;
mod report;
mod run;
mod serve;
mod service;
mod speedup;
mod status;
mod sweep;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(args),
        Command::Sweep(args) => sweep::sweep(&args),
        Command::Export(args) => export_model::export(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Report(args) => report::report(&args),
        Command::Speedup(args) => speedup::speedup(&args),
        Command::Devices(args) => devices::devices(&args),
        Command::Compare(args) => report::compare(&args),
        Command::Methods(args) => list::methods(&args),
        Command::Networks(args) => list::networks(&args),
        Command::Data(args) => data::data(args),
        Command::Init(args) => list::init(&args),
        Command::Cert(args) => cert::cert(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Join(args) => join::join(&args),
        Command::Status(args) => status::status(&args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}
