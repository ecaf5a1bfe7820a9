//! Personalized federated learning on the command line.
//!
//! The binary `formant` is this library with the standard methods. A crate with methods of its own is the same
//! program, under its own name and with those methods in every command, in three lines:
//!
//! ```no_run
//! use formant_methods::{Entry, FedAvg, Zoo};
//! use std::process::ExitCode;
//!
//! const MINE: Entry = Entry { name: "mine", title: "Mine", ..Entry::of::<FedAvg>("//! Mine.") };
//!
//! fn main() -> ExitCode {
//!     formant_cli::main(Zoo::standard().with(MINE))
//! }
//! ```

mod adapt;
mod args;
mod audit;
mod cert;
mod compare;
mod data;
mod data_export;
mod data_get;
mod data_import;
mod data_show;
mod devices;
mod evaluate;
mod export_model;
mod exporting;
mod extension;
mod folder;
mod interrupt;
mod job_bar;
mod join;
mod list;
mod output;
mod predict;
mod program;
mod progress;
mod ranking;
mod ranks;
mod report;
mod reproduce;
mod run;
mod runs;
mod series;
mod serve;
mod service;
mod spectra;
mod speedup;
mod status;
mod suggestion;
mod sweep;
mod tables;
mod tune;
mod watch;

use args::{Cli, Command};
use clap::FromArgMatches;
use formant_methods::Zoo;
use std::ffi::OsString;
use std::process::ExitCode;

/// Does what the command line asks for, with the methods of a zoo.
#[expect(clippy::needless_pass_by_value, reason = "a zoo is made for this call, on the same line")]
pub fn main(zoo: Zoo) -> ExitCode {
    let arguments = Cli::from_arg_matches(&program::command().get_matches());
    match arguments.map_or_else(|error| error.exit(), |cli| run_command(cli.command, &zoo)) {
        Ok(code) => code,
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// The same with a command line that somebody else has taken apart; gives the exit code. `args` begins with the name of
/// the program.
pub fn main_from(zoo: &Zoo, args: impl IntoIterator<Item = OsString>) -> u8 {
    let mut args = args.into_iter().peekable();
    if let Some(name) = args.peek() {
        program::call_it(&name.to_string_lossy());
    }
    let cli = program::command().try_get_matches_from(args);
    let cli = match cli.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Where it cannot be printed, nobody reads it.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(1);
        }
    };
    match run_command(cli.command, zoo) {
        Ok(code) => [0, 1, 2, 3, 130].into_iter().find(|n| ExitCode::from(*n) == code).unwrap_or(1),
        Err(error) => {
            output::print_error(&error);
            1
        }
    }
}

fn run_command(command: Command, zoo: &Zoo) -> anyhow::Result<ExitCode> {
    if let Some(refused) = ranks::check_alone(&command) {
        return refused;
    }
    match command {
        Command::Run(args) => run::run(args, zoo),
        Command::Sweep(args) => sweep::sweep(&args, zoo),
        Command::Tune(args) => tune::tune(args, zoo),
        Command::Export(args) => export_model::export(&args),
        Command::Predict(args) => predict::predict(&args),
        Command::Evaluate(args) => evaluate::evaluate(&args),
        Command::Adapt(args) => adapt::adapt(&args, zoo),
        Command::Report(args) => report::report(&args),
        Command::Reproduce(args) => reproduce::reproduce(args, zoo),
        Command::Tables(args) => tables::tables(&args),
        Command::Speedup(args) => speedup::speedup(&args, zoo),
        Command::Devices(args) => devices::devices(&args, zoo),
        Command::Compare(args) => compare::compare(&args),
        Command::Spectra(args) => spectra::spectra(&args),
        Command::Runs(args) => runs::runs(&args),
        Command::Methods(args) => list::methods(&args, zoo),
        Command::Networks(args) => list::networks(&args),
        Command::Data(args) => data::data(args, zoo),
        Command::Init(args) => list::init(&args, zoo),
        Command::Cert(args) => cert::cert(&args),
        Command::Audit(args) => audit::audit(&args),
        Command::Serve(args) => serve::serve(&args, zoo),
        Command::Join(args) => join::join(&args, zoo),
        Command::Status(args) => status::status(&args),
        Command::Watch(args) => watch::watch(&args),
    }
}
