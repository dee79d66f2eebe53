//! Records a program: `record -o out.twt [--window N] [--llc 32MiB/16] [--marks PATH] -- CMD ARGS`.

use std::process::ExitCode;

use tierwise_trace::cache::parse_geometry;
use tierwise_trace::record::{RecordOptions, record};

fn options() -> Result<RecordOptions, Box<dyn std::error::Error>> {
    let mut options = RecordOptions::new(Vec::new(), "trace.twt");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "-o" => options.out = value()?.into(),
            "--window" => options.window_instructions = value()?.parse()?,
            "--llc" => options.llc = parse_geometry(&value()?)?,
            "--marks" => options.marks = Some(value()?.into()),
            "--level" => options.level = value()?.parse()?,
            "--max" => options.max_instructions = Some(value()?.parse()?),
            "--force" => options.overwrite = true,
            "--" => options.command = arguments.by_ref().collect(),
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    let result = options().and_then(|options| Ok(record(&options, |_| {})?));
    match result {
        Ok(summary) => {
            eprintln!("{summary:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::from(2)
        }
    }
}
