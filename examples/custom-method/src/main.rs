//! The whole of Formant's command line, with one more method in it.

fn main() -> std::process::ExitCode {
    formant_cli::main(custom_method::zoo())
}
