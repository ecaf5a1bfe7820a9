//! `formant`: personalized federated learning in one binary.

use formant_methods::Zoo;
use std::process::ExitCode;

fn main() -> ExitCode {
    formant_cli::main(Zoo::standard())
}
