//! A server that does what servers do: well, and otherwise.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How a request is answered.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// As the standard says, from the byte that is asked for.
    Well,
    /// The whole file, whatever is asked for.
    Whole,
    /// Well, but the connection ends after so many bytes.
    Breaks(usize),
    /// The whole file, but the connection ends after so many bytes, and nothing says how many there are.
    Ends(usize),
    /// These bytes with their length.
    Other(Vec<u8>),
    /// These bytes without their length.
    Unmeasured(Vec<u8>),
    /// A part that begins at another byte.
    Elsewhere,
    /// No file but a status.
    Status(u16),
    /// The same address again.
    Loop,
}

/// Answers one request after the other, the last answer for all that follow.
pub(crate) struct Server {
    /// The address below which everything is the file.
    pub(crate) base: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn new(file: &[u8], answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/sets", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (file, answers, seen) = (file.to_vec(), answers.to_vec(), requests.clone());
        // Ends with the test's process.
        std::thread::spawn(move || {
            for (nth, stream) in listener.incoming().enumerate() {
                let answer = &answers[nth.min(answers.len() - 1)];
                // A client that has seen enough closes the connection.
                let _ = serve(stream.unwrap(), &file, answer, &seen);
            }
        });
        Self { base, requests }
    }

    /// The requests until now: the path, and from which byte on.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    file: &[u8],
    answer: &Answer,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap()?;
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let mut from = None;
    for line in lines {
        let line = line?.to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = Some(range.trim_end_matches('-').parse::<usize>().unwrap());
        }
    }
    seen.lock().unwrap().push(from.map_or(path.clone(), |from| format!("{path} from {from}")));
    let start = from.unwrap_or(0);
    let well = |stream: &mut TcpStream, most: usize| {
        let total = file.len();
        let status = match from {
            Some(_) if start >= total => "416 Range Not Satisfiable".into(),
            Some(_) => {
                format!("206 Partial Content\r\nContent-Range: bytes {start}-{}/{total}", total - 1)
            }
            None => "200 OK".into(),
        };
        let body = file.get(start..).unwrap_or_default();
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )?;
        stream.write_all(&body[..most.min(length)])
    };
    let closing = |stream: &mut TcpStream, bytes: &[u8]| {
        write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        stream.write_all(bytes)
    };
    match answer {
        Answer::Well => well(&mut stream, usize::MAX),
        Answer::Breaks(after) => well(&mut stream, *after),
        Answer::Whole | Answer::Other(_) => {
            let body = if let Answer::Other(other) = answer { other } else { file };
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            )?;
            stream.write_all(body)
        }
        Answer::Ends(after) => closing(&mut stream, &file[..*after]),
        Answer::Unmeasured(bytes) => closing(&mut stream, bytes),
        Answer::Elsewhere => {
            write!(
                stream,
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab"
            )
        }
        Answer::Status(status) => {
            write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        }
        Answer::Loop => {
            write!(
                stream,
                "HTTP/1.1 302 Found\r\nLocation: {path}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
        }
    }
}
