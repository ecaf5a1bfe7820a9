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
use formant_methods::Zoo;
use std::process::ExitCode;

fn main() -> ExitCode {
    let zoo = Zoo::standard();
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(args, &zoo),
        Command::Sweep(args) => sweep::sweep(&args, &zoo),
        Command::Export(args) => export_model::export(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Report(args) => report::report(&args),
        Command::Speedup(args) => speedup::speedup(&args, &zoo),
        Command::Devices(args) => devices::devices(&args, &zoo),
        Command::Compare(args) => report::compare(&args),
        Command::Methods(args) => list::methods(&args, &zoo),
        Command::Networks(args) => list::networks(&args),
        Command::Data(args) => data::data(args, &zoo),
        Command::Init(args) => list::init(&args, &zoo),
        Command::Cert(args) => cert::cert(&args),
        Command::Serve(args) => serve::serve(&args, &zoo),
        Command::Join(args) => join::join(&args, &zoo),
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
