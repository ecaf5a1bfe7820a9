//! Ctrl-C: the first asks for a stop at a batch, the second stops at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the first Ctrl-C (or SIGTERM) sets.
pub(crate) fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = flag.clone();
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::SeqCst) {
            eprintln!("\nstopped at once; the run can be resumed from its last checkpoint");
            std::process::exit(130);
        }
        eprintln!("\nstopping with the batches under way (Ctrl-C again to stop at once)");
    })?;
    Ok(flag)
}

/// Another process hears Ctrl-C and SIGTERM for this one, and says what is to be done.
#[cfg(feature = "mpi")]
pub(crate) fn disregard() {
    // Without it, this process ends by the signal, and the run goes on from its checkpoint.
    let _ = ctrlc::set_handler(|| {});
}
