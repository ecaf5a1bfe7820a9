//! The network computes what the simulator computes, bit for bit.

use crate::house::House;

#[tokio::test(flavor = "multi_thread")]
async fn ten_clients_over_sockets_give_the_bits_of_the_simulator() {
    let house = House::new(10, "scd", "");
    let (end, summaries) = house.run().await;
    assert_eq!((end.rounds, end.stopped), (3, None));
    assert_eq!(house.fingerprint(), house.simulated());
    assert!(summaries.iter().all(|summary| summary.rounds == 3 && summary.samples > 0));
    assert!(summaries.iter().any(|summary| summary.personal.unwrap().accuracy > 0.2));
}
